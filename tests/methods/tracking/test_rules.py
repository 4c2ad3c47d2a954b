"""Rules of alerts: what they mean, and errors that point at the word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.errors import BadSettings
from stream_icd.core.events import EVENT_KINDS
from stream_icd.methods.tracking.rules import (
    MOVED,
    NUMBERS,
    Rule,
    Subject,
)

CONDITIONS = (*EVENT_KINDS, MOVED, *NUMBERS, "graph", "name", "community", "node")
SIGNS = ("<", "<=", ">", ">=", "=", "!=", "and", "or", "not", "(", ")", "7", "'")
MOST_WORDS = 200
FILES = {"watch.csv": frozenset(("7", "x")), "my nodes.txt": frozenset(("8",))}


def parse(text: str):
    return Rule.parse(text, FILES.__getitem__)


def subject(kind: str = "merged", nodes: tuple[str, ...] = (), **numbers: float | None) -> Subject:
    return Subject(
        graph="as733",
        kind=kind,
        communities=(12, 3),
        numbers={"size": 60, **numbers},
        name="mostly RU, UA",
        among=lambda sought: not sought.isdisjoint(nodes),
    )


@pytest.mark.parametrize(
    ("rule", "fires"),
    [
        ("merged and bits >= 20 and size >= 50", True),
        ("merged and bits > 25", False),
        ("split or merged", True),
        ("split or born and merged", False),
        ("(split or merged) and size=60", True),
        ("not (split or born)", True),
        ("not not merged", True),
        ("size < 60 or size > 60 or size != 60", False),
        ("size <= 60 and size >= 60", True),
        ("merged and not (split or size < 9) and (bits > 99 or graph = as733)", True),
        ("overlap < 1", False),  # not known
        ("not overlap < 1", True),
        ("community = 3 and not community != 3", True),
        ("graph != 'as733'", False),
        ('graph contains "73"', True),
        ("name contains UA and not name = UA", True),
        ("node in watch.csv", True),
        ('node in "my nodes.txt"', False),
        ("node = 7 and not node != 7", True),
        ("bits>=2.5e1", True),
    ],
)
def test_what_rules_mean(rule: str, fires: bool) -> None:
    assert parse(rule).fires(subject(nodes=("7",), bits=25.0)) is fires


def test_a_rule_that_asks_for_nodes_that_moved_and_one_without_end() -> None:
    rule = parse("node in watch.csv and moved")
    assert rule.moves
    assert rule.fires(subject(MOVED, ("x",)))
    assert not rule.fires(subject(MOVED, ("y",)))
    assert not rule.fires(subject("merged", ("x",)))
    assert not parse("merged").moves
    with pytest.raises(KeyError):  # as the file is read
        parse("node in other.csv")
    deepest = (MOST_WORDS - 1) // 2
    assert parse("(" * deepest + "merged" + ")" * deepest).fires(subject())
    assert parse("not " * (MOST_WORDS - 2) + "merged").fires(subject())
    with pytest.raises(BadSettings, match=f"at most {MOST_WORDS} words"):
        parse("not " * MOST_WORDS + "merged")


@pytest.mark.parametrize(
    ("rule", "reason", "word"),
    [
        ("merged and bitz >= 20", "'bitz' is no kind of event and no field; did you", "bitz"),
        ("bits >= many", "bits is compared with a number, not 'many'", "many"),
        ("bits >= '20'", "bits is compared with a number", "'20'"),
        ("bits >= nan", "bits is compared with a number", "nan"),
        ("bits merged", "compare bits with <", "merged"),
        ("merged bits > 1", "expected and, or, or the end, not 'bits'", "bits"),
        ("size < 3 and (merged or split", "the rule ends, expected a closing bracket", ""),
        ("(merged size > 3)", "expected ) here", "size"),
        ("merged and", "the rule ends, expected a condition", ""),
        ("community = x", "'x' is no id of a community", "x"),
        ("community < 3", "compare a community with = !=", "<"),
        ("node watch.csv", "after node, expected in = !=", "watch.csv"),
        ("moved and size > 3", "say which nodes", "moved"),
        ("graph > a", "compare graph with = != contains", ">"),
        ("graph = 'as", '"\'" is not expected here', "'"),
        ("merged and 'split'", "'split' is no kind of event", "'split'"),
    ],
)
def test_errors_point_at_the_word(rule: str, reason: str, word: str) -> None:
    with pytest.raises(BadSettings) as error:
        parse(rule)
    said, shown, mark = str(error.value).split("\n")
    assert reason in said
    assert shown == rule
    start = mark.index("^")
    assert mark[start:] == "^" * max(len(word), 1)
    assert rule[start:] == "" if not word else rule[start : start + len(word)] == word


@given(st.lists(st.sampled_from([*CONDITIONS, *SIGNS])) | st.text())
def test_any_text_is_a_rule_or_an_error_that_shows_where(words: list[str] | str) -> None:
    text = words if isinstance(words, str) else " ".join(words)
    try:
        rule = Rule.parse(text, lambda _: frozenset())
    except BadSettings as error:
        said = str(error)
    else:
        assert rule.fires(subject(bits=1.0)) in (True, False)
        return
    assert said.count("\n") == 2
    assert said.rsplit("\n", 1)[1].strip().strip("^") == ""
