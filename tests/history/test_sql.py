"""The SQL of docs/sql.md answers its questions on an archive."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_icd.core.communities import Communities
from stream_icd.core.snapshot import Window
from stream_icd.core.store.store import Store, open_store
from stream_icd.history.archive import Archive
from stream_icd.methods.tracking.track import remember, track
from stream_icd.wire.communities import encode_communities
from stream_icd.wire.events import encode_events
from tests.testbed.windows import window

DOCUMENT = (Path(__file__).parents[2] / "docs" / "sql.md").read_text(encoding="utf-8")
VIEWS, QUESTIONS = DOCUMENT.split("## The topic in ClickHouse")[0].split("## Ten questions")
SQL = re.compile(r"^```sql\n(.*?)^```", re.DOTALL | re.MULTILINE)
ASKED: dict[str, str] = dict(
    re.findall(r"^### (\d+\. .+?)\n\n```sql\n(.*?)^```", QUESTIONS, re.S | re.M)
)
START = datetime(1999, 4, 1, tzinfo=UTC)
NODES = np.arange(690, 720)
JOINED, MERGED = 3, 5
"""Days: 701 and 702 go from community 2 to 5; community 9 merges into 5."""


def day(number: int) -> Communities:
    ids = np.where(NODES < 705, 2, np.where(NODES < 712, 5, 9))
    if number >= JOINED:
        ids[np.isin(NODES, (701, 702))] = 5
    if number >= MERGED:
        ids[ids == 9] = 5
    known, labels = np.unique(ids, return_inverse=True)
    is_unsure = NODES == 704
    return replace(
        window(number, labels, NODES, ids=known),
        graph="as733",
        snapshot_id=f"as733/1999-04-{number + 1:02}",
        window=Window(START + timedelta(number), START + timedelta(number + 1)),
        probabilities=np.where(is_unsure, 0.6, 1).astype(np.float32),
        second_ids=np.where(is_unsure, 5, -1),
        second_probabilities=np.where(is_unsure, 0.4, 0).astype(np.float32),
    )


def fill(store: Store, n_days: int = 7) -> None:
    archive, recent = Archive(store), ()
    wrong = replace(day(0), labels=np.zeros(len(NODES), np.int32), community_ids=np.array([1]))
    wrong = replace(wrong, second_ids=None, second_probabilities=None, revision="00")
    archive.add("communities", encode_communities(wrong), (1, 0))  # replaced by the first day
    for number in range(n_days):
        events = track(recent, day(number))
        recent = remember(recent, events)
        archive.add("communities", encode_communities(day(number)), (2 + number, number))
        archive.add("events", encode_events(events), (2 + number, number))


Rows = list[tuple[Any, ...]]
Database = Callable[[str], Rows]
"""Answers a query."""


def duck_db(folder: Path) -> Database:
    import duckdb

    connection = duckdb.connect()
    connection.execute(views_in(folder)[0])

    def rows(query: str) -> Rows:
        # As Arrow: DuckDB's own conversion of times needs pytz.
        table = connection.sql(query).to_arrow_table()
        return [tuple(row.values()) for row in table.to_pylist()]

    return rows


def click_house(folder: Path) -> Database:
    pytest.importorskip("chdb", reason="pip install chdb chdb-core, which take 900 MB")
    from chdb.session import Session

    session = Session()
    for statement in filter(str.strip, views_in(folder)[1].split(";")):
        session.query(statement)

    def rows(query: str) -> Rows:
        answer = session.query(query.strip().rstrip(";"), "JSONCompactStrings")
        return [tuple(map(read, row)) for row in json.loads(str(answer))["data"]]

    return rows


def read(text: str) -> Any:
    """A value of ClickHouse, as DuckDB has it."""
    if text.startswith("[") or text.replace(".", "", 1).replace("-", "", 1).isdigit():
        return json.loads(text)
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return text


def views_in(folder: Path) -> list[str]:
    return [sql.replace("'history/", f"'{folder}/history/") for sql in SQL.findall(VIEWS)]


@pytest.fixture(scope="module", params=[duck_db, click_house])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Database:
    folder = tmp_path_factory.mktemp("sql")
    fill(open_store(str(folder / "history")))
    opened: Database = request.param(folder)
    return opened


def ask(database: Database, number: int) -> Rows:
    (query,) = (query for title, query in ASKED.items() if title.startswith(f"{number}. "))
    return database(query)


def on(number: int) -> datetime:
    return START + timedelta(number)


def test_there_are_ten_questions() -> None:
    assert len(ASKED) == len(re.findall("^### ", QUESTIONS, re.M)) == 10


def test_where_a_node_was(database: Database) -> None:
    rows = ask(database, 1)
    assert [(row[0], row[1]) for row in rows] == [
        (on(number), 2 if number < JOINED else 5) for number in range(7)
    ]
    assert ask(database, 2) == [(on(JOINED), 2, 5)]
    assert ask(database, 3) == [(702, on(JOINED), 2, 5)]


def test_who_is_in_a_community(database: Database) -> None:
    assert {node for node, _ in ask(database, 4)} == {702, *range(705, 720)}
    loyal = ask(database, 5)
    assert loyal[0] == (690, 7, 1.0)
    assert {row[1] for row in loyal} == {7}
    assert ask(database, 7) == [(5, 17, 1.0), (2, 13, pytest.approx(1 - 0.4 / 13))]
    assert [row[:2] for row in ask(database, 8)] == [(704, 2)]


def test_what_happened(database: Database) -> None:
    ((start, _, parents, size, _),) = ask(database, 6)
    assert (start, len(parents), size) == (on(MERGED), 2, 17)
    assert ask(database, 9) == [(2, 5, 2)]
    restless = ask(database, 10)
    assert restless[JOINED] == (on(JOINED), 30, pytest.approx(2 / 30))
    assert [row[2] for row in restless[:JOINED]] == [0] * JOINED
