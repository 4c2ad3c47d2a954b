"""What every step gets from the runner: its graph only, dead letters, log lines, a fresh model."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from stream_icd.core.errors import BadInput, RecordTooLarge, TooManyDeadLetters
from stream_icd.core.snapshot import Snapshot
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.messages.records import Outcome, Processed, Refused
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.registry.model import VersionedModel
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.workers.detect import Detector
from stream_icd.streaming.workers.runner import Runner
from stream_icd.streaming.workers.step import Step
from stream_icd.wire.snapshots import encode_snapshot


class Number(Step):
    """Numbers the records of each graph, as far as they are committed; `?` is bad input."""

    def __init__(self) -> None:
        self._committed: dict[str, int] = {}
        self._counts = ChainMap({}, self._committed)

    def begin(self, records: Sequence[Record]) -> None:  # noqa: ARG002
        self._counts = ChainMap({}, self._committed)

    def process(self, record: Record) -> Outcome:
        if record.value == b"?":
            return Refused("read", BadInput("not a number"))
        graph = (record.key or b"").decode()
        count = self._counts.get(graph, 0) + 1
        self._counts[graph] = count
        return Processed("numbered", {"count": count}, (OutgoingRecord("out", b"%d" % count),))

    def done(self, batch: BatchDone) -> None:  # noqa: ARG002
        self._committed |= self._counts.maps[0]


def record(offset: int, graph: bytes = b"a", value: bytes = b"x") -> Record:
    return Record("in", 0, offset, 0, graph, value)


def published(runner: Runner, *records: Record) -> list[bytes | None]:
    return [one.value for one in runner.handle(records)]


def done(runner: Runner) -> None:
    runner.done(BatchDone((), (), 0.0))


def test_what_a_step_remembers_of_a_graph_counts_once_it_is_committed() -> None:
    runner = Runner(Number())
    assert published(runner, record(0), record(1, b"b"), record(2)) == [b"1", b"1", b"2"]
    assert published(runner, record(0), record(1, b"b"), record(2)) == [b"1", b"1", b"2"]
    done(runner)
    assert published(runner, record(3, b"b"), record(4)) == [b"2", b"3"]


def test_only_the_graph_that_was_asked_for_is_processed() -> None:
    runner = Runner(Number(), graph="b")
    assert published(runner, record(0), record(1, b"b"), record(2, b"")) == [b"1"]


def test_what_is_skipped_is_said_each_time_that_it_has_doubled() -> None:
    runner = Runner(Number(), graph="b")
    with capture_logs() as lines:
        for batch in range(100):
            published(runner, *(record(16 * batch + i) for i in range(16)))
    assert [line["since_start"] for line in lines] == [16, 32, 64, 128, 256, 512, 1024]


def test_a_bad_record_becomes_a_dead_letter_in_its_place() -> None:
    runner = Runner(Number())
    good, letter, other = runner.handle([record(0), record(1, value=b"?"), record(2)])
    assert (good.value, letter.topic, other.value) == (b"1", "in.dlq", b"2")
    said = dict(letter.headers)
    assert (said["icd_dlq_stage"], said["icd_dlq_message"]) == (b"read", b"not a number")


def test_a_step_that_returns_no_outcome_is_named() -> None:
    class Forgetful(Number):
        def process(self, record: Record) -> Outcome:
            super().process(record)
            return None  # type: ignore[return-value]

    with pytest.raises(TypeError, match=r"Forgetful returned None for in\[0\]@0: return Processed"):
        published(Runner(Forgetful()), record(0))


def test_a_worker_that_cannot_make_results_fit_ends_when_one_is_refused() -> None:
    with pytest.raises(RecordTooLarge, match="refused"):
        Runner(Number()).learn(RecordTooLarge("refused", "out", 5))


def test_too_many_dead_letters_stop_a_worker_whatever_its_step() -> None:
    runner = Runner(Number(), DeadLetterLimit(window=2))
    with pytest.raises(TooManyDeadLetters, match="not a number"):
        published(runner, record(0, value=b"?"), record(1, value=b"?"))


def test_records_that_were_sent_again_too_early_stop_no_worker() -> None:
    runner = Runner(Number(), DeadLetterLimit(window=2))
    again = [replace(record(i, value=b"?"), headers=(("icd_dlq_attempt", b"1"),)) for i in range(9)]
    assert published(runner, *again) == [b"?"] * 9


def test_each_line_of_the_log_names_the_record_and_what_came_of_it() -> None:
    from structlog.contextvars import merge_contextvars

    with capture_logs([merge_contextvars]) as lines:
        published(Runner(Number()), record(7), record(8, value=b"?"))
    good, bad = lines
    assert good.items() >= {"event": "numbered", "count": 1, "offset": 7, "graph": "a"}.items()
    assert bad.items() >= {"event": "dead letter", "stage": "read", "offset": 8}.items()


def test_a_detector_takes_another_model_between_two_batches(
    model: VersionedModel, snapshot: Callable[..., Snapshot]
) -> None:
    message = encode_snapshot(snapshot(0))
    one = Record("in", 0, 0, 0, message.key, message.value, message.headers)
    at_work = [model]
    detector = Detector(lambda: at_work[-1], DetectSettings(threads=1))
    runner = Runner(detector)

    def versions() -> list[bytes]:
        results = runner.handle([one, one])
        first = dict(next(results).headers)["icd_model"]
        at_work.append(VersionedModel(f"test@{len(at_work)}", model.model))  # within a batch
        return [first, *(dict(rest.headers)["icd_model"] for rest in results)]

    assert versions() == [b"test@0", b"test@0"]
    assert versions() == [b"test@1", b"test@1"]


def test_a_step_says_how_many_records_it_works_on_at_once() -> None:
    step = Number()
    assert Runner(step).at_once is None
    step.at_once = 4
    assert Runner(step).at_once == 4
