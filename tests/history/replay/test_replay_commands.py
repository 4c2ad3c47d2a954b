"""`stream-icd replay` of an archive or a topic: what it stores, compares, says and refuses."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from kafka import KafkaConsumer
from typer.testing import Result

from stream_icd.commands.cli.replay import PastOfTopic
from stream_icd.core.communities import Communities
from stream_icd.core.errors import (
    BadSettings,
    ModelNotFound,
    SourceNotFound,
    TopicMissing,
)
from stream_icd.core.store.store import Store, open_store
from stream_icd.history.archive import Archive, Selection
from stream_icd.history.replay.compare import LabelledNodes, churn, compare
from stream_icd.history.replay.redetect import Redetection, ReplayJob
from stream_icd.history.replay.replay import ReplayPlan, TopicResults, replay
from stream_icd.kafka.messages.pacing import Tempo
from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.messages.topic_range import TopicRange
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import COMMUNITIES, SNAPSHOTS, create_topics
from stream_icd.streaming.execution.work import InProcess
from stream_icd.wire.arrow_stream import write_table
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import encode_snapshot
from tests.history.conftest import add_snapshots, archived, make_communities, run
from tests.history.replay.conftest import N_SNAPSHOTS, StopsAfter, filled, make_snapshot
from tests.run_here import run_here
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.children import alive, children, worker_processes
from tests.testbed.fingerprint import fingerprint
from tests.testbed.object_store import new_folder
from tests.testbed.streams import held, publish

pytestmark = pytest.mark.brokers("memory")

ROOT = Path(__file__).parents[3]
RESULTS = Selection("communities")


@pytest.fixture
def again(archive: Store, model_folder: Path) -> Callable[..., Result]:
    fixed = ("replay", "history", archive.uri, "--model", str(model_folder), "--engine", "serial")

    def replay(out: str | Path, *options: str, exit_code: int = 0) -> Result:
        return run(*fixed, "--out", str(out), *options, exit_code=exit_code)

    return replay


Again = Callable[..., Result]


def test_a_dry_run_says_what_would_happen_and_does_nothing(
    archive: Store, again: Again, redetection: Redetection, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    said = again(out, "--dry-run", "--speed", "60x", "--to", "2026-01-01T04").stderr
    assert "4 snapshots of past" in said
    assert "windows that end from 2026-01-01 01:00:00 to 2026-01-01 04:00:00 UTC" in said
    assert f"to be detected with {redetection.version}, results to {out}" in said
    assert "takes 0:03:00 at the least" in said
    for tempo in (("--speed", f"0.{'0' * 20}1x"), ("--rate", f"0.{'0' * 300}1")):
        assert "takes 3652059 days" in again(out, "--dry-run", *tempo).stderr
    assert not out.exists()
    add_snapshots(archive, [make_snapshot(0, "over")])
    late = ("replay", "history", archive.uri, "--out", str(out), "--engine", "serial")
    late = (*late, "--from", "2026-01-01T04")
    assert "4 earlier snapshots" in run(*late).stderr
    assert "earlier snapshots" not in run(*late).stderr


def test_a_replay_compares_versions(archive: Store, again: Again, tmp_path: Path) -> None:
    to = ("--to", "2026-01-01T03", "--compare")
    streamed = again(archive.uri, *to)  # as if it were streamed
    assert "no other results of these snapshots" in streamed.stderr
    shown = again(tmp_path / "x", *to, "--method", "icd", "--k", "5")
    rows = [line.split() for line in shown.stdout.splitlines()]
    before = next(row for row in rows if "before" in row and row[0] == "past")
    replayed = next(row for row in rows if "replayed" in row and row[0] == "past")
    assert before[3] == replayed[3] == "3"
    assert replayed[1] == f"{before[1]}-icd"
    agreement = next(row for row in rows if row[:2] == ["past", before[1]] and "before" not in row)
    assert agreement[4] == "3"
    assert 0 <= float(agreement[6]) <= 1
    # Into its own archive, it is compared with what it replaces.
    shown = again(archive.uri, *to, "--k", "101")  # of 100 nodes
    assert shown.stderr.count("each node becomes its own community") == 1
    agreement = shown.stdout.splitlines()[-1].split()
    assert agreement[4:6] == ["3", "0"]  # windows, and how many are the same


def found(i: int, labels: Sequence[int], model: str = "old@1") -> Communities:
    """A result for the i-th snapshot, labels repeated over its nodes."""
    one = make_communities(make_snapshot(i), model)
    return replace(one, labels=np.resize(np.asarray(labels, np.int32), one.n_nodes))


def test_the_same_partition_by_other_names_agrees_and_does_not_move() -> None:
    before = [found(i, (0, 1)) for i in range(3)]
    after = [replace(found(i, (1, 0), "new@1"), modularity=0.75) for i in range(3)]
    comparison = compare(before, after)
    (agreement,) = comparison.agreements
    assert (agreement.windows, agreement.same) == (3, 0)
    assert agreement.nmi == agreement.least_nmi == pytest.approx(1.0)
    old, new = sorted(comparison.qualities, key=lambda quality: quality.modularity)
    assert old.version == ("past", "old@1", "before")
    assert new.version == ("past", "new@1", "replayed")
    assert (new.modularity, new.communities, new.windows) == (0.75, 2, 3)
    assert old.churn == new.churn == 0.0
    comparison = compare(before, after[1:2])  # those that were not replayed do not count
    assert [quality.windows for quality in comparison.qualities] == [1, 1]
    assert comparison.agreements[0].windows == 1


def test_the_window_where_they_differ_most_is_named() -> None:
    before = [found(i, (0, 1)) for i in range(3)]
    after = [found(0, (0, 1), "n"), found(1, (0, 0, 1, 1), "n"), found(2, (0, 1), "n")]
    (agreement,) = compare(before, after).agreements
    assert agreement.least_at == "past/1"
    assert agreement.least_nmi == pytest.approx(0.0, abs=0.01)
    assert agreement.nmi == pytest.approx(2 / 3, abs=0.01)
    assert agreement.same == 2
    # Without a common node, as after a correction that turns ids from numbers into texts.
    after[1] = replace(found(1, (0, 1), "n"), nodes=before[1].nodes.cast(pa.string()))
    (agreement,) = compare(before, after).agreements
    assert agreement.nmi == pytest.approx(2 / 3)
    assert (agreement.least_nmi, agreement.least_at) == (0.0, "past/1")


def test_the_mean_horizon_and_bits_are_of_windows_that_say_them() -> None:
    first = replace(found(0, (0, 1)), horizon=1.0)
    told = [first, replace(found(1, (0, 1)), horizon=4.0, predicted_bits=0.5)]
    (with_memory,) = compare([], told).qualities
    assert (with_memory.horizon, with_memory.predicted_bits) == (2.5, 0.5)
    (alone,) = compare([], [found(i, (0, 1)) for i in range(2)]).qualities
    assert np.isnan([alone.horizon, alone.predicted_bits]).all()


def test_churn_is_the_share_of_common_nodes_that_moved() -> None:
    earlier, later = found(0, (0, 1)), found(1, (1, 0))
    assert earlier.nodes.equals(later.nodes)
    moved = later.labels.copy()
    moved[:10] = 1 - moved[:10]
    assert churn(earlier, replace(later, labels=moved)) == pytest.approx(0.1)
    fewer = replace(later, nodes=later.nodes.slice(3), labels=later.labels[3:])
    assert churn(earlier, fewer) == 0.0
    assert churn(LabelledNodes(earlier.nodes[:3], earlier.labels[:3]), fewer) is None


def test_a_snapshot_that_is_refused_does_not_prevent_the_comparison(
    archive: Store, again: Again
) -> None:
    broken = Archive(archive).read_message(next(Archive(archive).windows()))
    table = pa.ipc.open_stream(broken.value).read_all().select(["src"])
    Archive(archive).add("snapshots", replace(broken, value=write_table(table)), (1, 1))
    shown = again(archive.uri, "--to", "2026-01-01T02", "--compare", exit_code=1)
    assert "quality, means over the windows" in shown.stdout


def test_snapshots_that_vanish_after_they_were_counted_are_said(
    archive: Store, again: Again, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop() -> threading.Event:
        archive.delete(next(Archive(archive).windows()).path)
        return threading.Event()

    with monkeypatch.context() as patch:
        patch.setattr("stream_icd.commands.programs.process.stop_on_signals", stop)
        done = again(tmp_path / "out", exit_code=1)
    assert "removed or corrected after they were counted" in done.stderr
    again(tmp_path / "out")


def test_an_object_store_is_replayed_as_a_disk_is(
    s3: str, archive: Store, model_folder: Path, tmp_path: Path
) -> None:
    options = ["--model", str(model_folder), "--workers", "2", "--seed", "7"]
    found = []
    for past, out in (
        (archive, str(tmp_path / "out")),
        (filled(open_store(new_folder(s3))), new_folder(s3)),
    ):
        run("replay", "history", past.uri, "--out", out, *options)
        found.append(list(map(fingerprint, archived(open_store(out), RESULTS))))
    assert found[0] == found[1]
    assert len(found[1]) == N_SNAPSHOTS


def test_a_replay_takes_the_champion_of_a_registry(
    archive: Store, model_folder: Path, redetection: Redetection, tmp_path: Path
) -> None:
    registry, out = str(tmp_path / "registry"), tmp_path / "out"
    history = ["replay", "history", archive.uri, "--out", str(out), "--to", "2026-01-01T02"]
    with pytest.raises(BadSettings, match="champion is an alias of a model registry"):
        run(*history, "--model", "champion")
    run("models", "import", str(model_folder), "--registry", registry, "--first-champion")
    for engine, model in (("pool", "champion"), ("serial", redetection.model.version)):
        options = ["--model", model, "--registry", registry, "--engine", engine]
        said = run(*history, *options).stderr
        assert f"to be detected with {redetection.version}, results to {out}" in said
    assert "2 results are there already" in said  # the version goes on with what the alias began
    assert len(archived(open_store(str(out)), RESULTS)) == 2


def test_what_cannot_be_meant_is_refused(archive: Store, model_folder: Path) -> None:
    with_model = "--model", str(model_folder)
    for options, error, reason in (
        ((), BadSettings, "either --out or --out-topic"),
        (("--out-topic", COMMUNITIES), BadSettings, "--into-live"),
        (("--out-topic", SNAPSHOTS, "--into-live"), BadSettings, "holds other messages than"),
        (("--out", "o", "--graph", "pats"), BadSettings, "graph pats.*did you mean past"),
        (("--out", "o", "--ray-address", "auto"), BadSettings, "--engine ray"),
        (("--out", "o", "--model", "as@00000000"), ModelNotFound, "not as@00000000"),
    ):
        with pytest.raises(error, match=reason):
            run("replay", "history", archive.uri, *with_model, *options)
    with pytest.raises(SourceNotFound, match="there is no .*histry"):
        run("replay", "history", "histry", "--out", "o", *with_model)


def test_a_topic_is_not_made_by_a_dry_run(
    broker: Broker, make_topic: Callable[..., str], model_folder: Path
) -> None:
    source = make_topic()
    address = ["--bootstrap-servers", broker.bootstrap_servers, "--model", str(model_folder)]
    with pytest.raises(BadSettings, match="holds the snapshots: give another --out-topic"):
        run("replay", "topic", "--topic", source, "--out-topic", source, *address)
    for out in ((f"{source}.again",), (COMMUNITIES, "--into-live")):
        options = ["--topic", source, "--out-topic", *out, "--dry-run", "--graph", "g"]
        with pytest.raises(BadSettings, match="no snapshot of graph g from the beginning to the"):
            run("replay", "topic", *options, *address)
    with pytest.raises(TopicMissing), open_reader(broker.settings(), f"{source}.again"):
        pass


def test_kill_9_of_a_replay(
    archive: Store, model_folder: Path, redetection: Redetection, tmp_path: Path
) -> None:
    out = open_store(str(tmp_path / "out"))
    options = ["--model", str(model_folder), "--seed", "7", "--out", out.uri]
    arguments = ["replay", "history", archive.uri, *options]
    command = [sys.executable, "-m", "stream_icd.commands.cli", *arguments]
    slowly = ["--workers", "1", "--speed", "600x"]  # a window every 6 seconds
    with subprocess.Popen([*command, *slowly], stderr=subprocess.DEVNULL, cwd=ROOT) as process:
        wait_until(lambda: len(results(out)) >= 2)
        workers = worker_processes(process.pid)
        left = [*workers, *children(process.pid)]
        process.kill()
    assert workers
    wait_until(lambda: not any(map(alive, left)))
    before = {path: out.open(path).read() for path in results(out)}
    assert 2 <= len(before) < N_SNAPSHOTS

    again = run_here(*arguments, "--engine", "serial")
    assert again.returncode == 0, again.stderr
    assert f"{len(before)} results are there already" in again.stderr
    assert all(out.open(path).read() == content for path, content in before.items())
    assert len(results(out)) == N_SNAPSHOTS
    remembering = replace(redetection, settings=replace(redetection.settings, memory="auto"))
    jobs = [ReplayJob.of_archived(archive.uri, noted) for noted in Archive(archive).windows()]
    expected = [fingerprint(outcome) for _, outcome in InProcess(remembering)(jobs)]  # type: ignore[arg-type]
    assert list(map(fingerprint, archived(out, RESULTS))) == expected


def results(store: Store) -> list[str]:
    return [path for path in store.files() if path.endswith(".parquet")]


WRITTEN = datetime(2026, 3, 1, tzinfo=UTC)


def at_ms(minute: int) -> int:
    return round((WRITTEN + timedelta(minutes=minute)).timestamp() * 1000)


@pytest.fixture
def past(broker: Broker, make_topic: Callable[..., str]) -> str:
    """A topic of five snapshots, written a minute apart, one of them twice; and a bad record."""
    topic = make_topic(retention_ms=-1)  # what is so old would be removed at once
    sent = [outgoing(topic, encode_snapshot(make_snapshot(i))) for i in (0, 1, 2, 2, 3, 4)]
    sent.append(OutgoingRecord(topic, b"no snapshot", b"past"))
    publish(broker, [replace(one, timestamp_ms=at_ms(minute)) for minute, one in enumerate(sent)])
    return topic


def jobs_of(broker: Broker, part: TopicRange) -> Any:
    return PastOfTopic(broker.settings(), part, None).jobs(None)


def replay_topic(
    redetection: Redetection, topic: str, out: TopicResults, stop: threading.Event | None = None
) -> Any:
    past = PastOfTopic(out.settings, TopicRange(topic), None)
    plan = ReplayPlan.of(past.jobs(None), out, redetection)
    with closing(past.jobs(None)) as todo:
        work, stop = InProcess(redetection), stop or threading.Event()
        return replay(todo, plan, work, out, Tempo(), lambda: 0.0, stop)


def test_a_replay_that_stopped_goes_on(broker: Broker, past: str, redetection: Redetection) -> None:
    out = TopicResults(broker.settings(), f"{past}.again")
    stops = StopsAfter(2), None, None
    done = [replay_topic(redetection, past, out, stop) for stop in stops]
    assert done == [(2, 0), (3, 0), (0, 0)]
    found = [
        fingerprint(Message(record.key or b"", record.value or b"", record.headers))
        for record in held(broker, out.topic)
    ]
    newest = {job.snapshot_id: job for job in jobs_of(broker, TopicRange(past))}.values()
    assert found == [fingerprint(redetection(job)) for job in newest]  # type: ignore[arg-type]


def test_a_replay_that_is_asked_to_stop_ends_though_the_client_does_not_return(
    kafka: Broker, topic_name: str, model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = kafka.settings(shutdown_timeout_s=0.5, max_poll_interval_s=20.0)
    names = topic_name, f"{topic_name}.again"
    create_topics(settings, list(map(TopicSpec, names)))
    publish(kafka, [outgoing(topic_name, encode_snapshot(make_snapshot(0)))])
    stop, planned, over = threading.Event(), threading.Event(), threading.Event()
    poll = KafkaConsumer.poll

    def hanging(consumer: Any, *arguments: Any, **options: Any) -> Any:
        if planned.is_set():
            stop.set()
            over.wait()
        return poll(consumer, *arguments, **options)

    def stopped_by_signals() -> threading.Event:
        planned.set()
        return stop

    monkeypatch.setattr(KafkaConsumer, "poll", hanging)
    monkeypatch.setattr("stream_icd.commands.programs.process.stop_on_signals", stopped_by_signals)
    monkeypatch.setenv("STREAM_ICD_SHUTDOWN_TIMEOUT_S", "0.5")
    topics = ("--topic", names[0], "--out-topic", names[1], "-b", settings.bootstrap_servers)
    try:
        options = ("--model", str(model_folder), "--memory", "off", "--engine", "serial")
        assert run_here("replay", "topic", *topics, *options).returncode == 130
    finally:
        over.set()


def test_the_newest_revision_is_replayed_and_other_settings_are_another_result(
    broker: Broker, past: str, redetection: Redetection
) -> None:
    corrected = replace(make_snapshot(1), edges=make_snapshot(1).edges[:, 5:])
    record = outgoing(past, encode_snapshot(corrected))
    plain = tuple(header for header in record.headers if header[0] != "icd_content")
    publish(broker, [replace(record, headers=plain)])  # of a producer that does not hash
    out = TopicResults(broker.settings(), f"{past}.again")
    for k, expected in ((None, 5), (None, 0), (4, 5), (4, 0), (None, 0)):
        settings = replace(redetection.settings, n_communities=k)
        done = replay_topic(replace(redetection, settings=settings), past, out)
        assert done == (expected, 0)
    found = list(out.read({("past", f"past/{i}") for i in range(5)}))
    contents = {each.content for each in found if each.snapshot_id == corrected.id}
    assert contents == {corrected.content}
    assert [communities.k_given for communities in found] == [None] * 5 + [4] * 5
    of_one = out.read({("past", corrected.id)})
    assert [communities.snapshot_id for communities in of_one] == [corrected.id] * 2


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ("2026-03-01T00:01:00Z", "2026-03-01T00:04:00Z", [1, 2]),
        ("2026-03-01T00:04:00Z", None, [3, 4]),
        ("1", "5", [1, 2, 3]),
        (None, "0:2", [0, 1]),
    ],
)
def test_a_part_of_the_topic(
    broker: Broker, past: str, first: str | None, last: str | None, expected: list[int]
) -> None:
    jobs = jobs_of(broker, TopicRange.of_options(past, first, last, 1))
    ids = list(dict.fromkeys(job.snapshot_id for job in jobs))
    assert ids == [f"past/{i}" for i in expected]


@pytest.mark.parametrize(
    ("first", "last", "n_partitions", "reason"),
    [
        ("120", None, 6, "0:120,1:120"),
        ("yesterday", None, 1, "yesterday"),
        ("0:1,6:0", None, 6, "no partition 6; its partitions are 0 to 5"),
        ("0:1,0:5", None, 6, "names a partition twice"),
        ("20260131", None, 1, r"write 2026-01-31 .* 0:20260131 for the offset"),
        ("0:1", "1:2", 2, "the same ones"),
        ("0:6,1:5", "0:7,1:4", 2, "0:7,1:4 before 0:6,1:5"),
        ("2026-03-01", "2026-02-28", 1, "--to is before --from"),
    ],
)
def test_a_part_that_nobody_can_mean_is_refused(
    first: str, last: str | None, n_partitions: int, reason: str
) -> None:
    with pytest.raises(BadSettings, match=reason):
        TopicRange.of_options("t", first, last, n_partitions)
    assert TopicRange.of_options("t", "2:120,4:7", None, 6).start == {2: 120, 4: 7}
