"""Rules of alerts: what they mean, and errors that point at the word."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_icd.core.errors import BadSettings
from stream_icd.core.events import KINDS
from stream_icd.methods.tracking.rules import (
    MOVED,
    NUMBERS,
    Rule,
    Subject,
)

CONDITIONS = (*KINDS, MOVED, *NUMBERS, "graph", "name", "community", "node")
COMPARED = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
}
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
        ("merged", True),
        ("split", False),
        ("merged and bits >= 20 and size >= 50", True),
        ("merged and bits > 25", False),
        ("split or merged", True),
        ("not merged", False),
        ("split or born and merged", False),
        ("(split or merged) and size=60", True),
        ("not (split or born)", True),
        ("not not merged", True),
        ("overlap < 1", False),  # not known
        ("not overlap < 1", True),
        ("community = 3", True),
        ("community != 3", False),
        ("graph = as733", True),
        ("graph != 'as733'", False),
        ('graph contains "73"', True),
        ("name contains UA", True),
        ("name = UA", False),
        ("node in watch.csv", True),
        ('node in "my nodes.txt"', False),
        ("node = 7", True),
        ("node != 7", False),
        ("bits>=2.5e1", True),
    ],
)
def test_what_rules_mean(rule: str, fires: bool) -> None:
    assert parse(rule).fires(subject(nodes=("7",), bits=25.0)) is fires


def test_a_rule_that_asks_for_nodes_that_moved() -> None:
    rule = parse("node in watch.csv and moved")
    assert rule.moves
    assert rule.fires(subject(MOVED, ("x",)))
    assert not rule.fires(subject(MOVED, ("y",)))
    assert not rule.fires(subject("merged", ("x",)))
    assert not parse("merged").moves
    with pytest.raises(KeyError):  # as the file is read
        parse("node in other.csv")


@pytest.mark.parametrize(
    ("rule", "reason", "word"),
    [
        ("merged and bitz >= 20", "'bitz' is no kind of event and no field; did you", "bitz"),
        ("merge", "did you mean merged", "merge"),
        ("bits >= many", "bits is compared with a number, not 'many'", "many"),
        ("bits >= '20'", "bits is compared with a number", "'20'"),
        ("bits >= nan", "bits is compared with a number", "nan"),
        ("bits merged", "compare bits with <", "merged"),
        ("merged bits > 1", "expected and, or, or the end, not 'bits'", "bits"),
        ("size < 3 and (merged or split", "the rule ends, expected a closing bracket", ""),
        ("(merged size > 3)", "expected ) here", "size"),
        ("merged and", "the rule ends, expected a condition", ""),
        ("", "the rule ends", ""),
        ("community = x", "'x' is no id of a community", "x"),
        ("community < 3", "compare a community with = !=", "<"),
        ("node watch.csv", "after node, expected in = !=", "watch.csv"),
        ("moved and size > 3", "say which nodes", "moved"),
        ("graph > a", "compare graph with = != contains", ">"),
        ("graph = 'as", "\"'\" is not expected here", "'"),
        ("merged and 'split'", "'split' is no kind of event", "'split'"),
    ],
)  # fmt: skip
def test_errors_point_at_the_word(rule: str, reason: str, word: str) -> None:
    with pytest.raises(BadSettings) as error:
        parse(rule)
    said, shown, mark = str(error.value).split("\n")
    assert reason in said
    assert shown == rule
    start = mark.index("^")
    assert mark[start:] == "^" * max(len(word), 1)
    assert rule[start : start + len(word)] == word
    if not word:
        assert start == len(rule)


def test_a_rule_has_an_end() -> None:
    deepest = (MOST_WORDS - 1) // 2
    assert parse("(" * deepest + "merged" + ")" * deepest).fires(subject())
    assert parse("not " * (MOST_WORDS - 2) + "merged").fires(subject())
    with pytest.raises(BadSettings, match=f"at most {MOST_WORDS} words"):
        parse("not " * MOST_WORDS + "merged")


Written = tuple[str, Callable[[Subject], bool]]
"""A rule, and what it means."""


def _number(name: str, sign: str, limit: float) -> Written:
    def means(asked: Subject) -> bool:
        value = asked.numbers.get(name)
        return value is not None and COMPARED[sign](value, limit)

    return f"{name} {sign} {limit!r}", means


def _joined(pair: tuple[Written, Written], sign: str) -> Written:
    (one, of_one), (other, of_other) = pair
    both = operator.and_ if sign == "and" else operator.or_
    return f"({one}) {sign} ({other})", lambda asked: both(of_one(asked), of_other(asked))


NUMBER = st.floats(-100, 100).map(lambda number: round(number, 2))
CONDITION = st.one_of(
    st.sampled_from(KINDS).map(lambda kind: (kind, lambda asked: asked.kind == kind)),
    st.builds(_number, st.sampled_from(NUMBERS), st.sampled_from(list(COMPARED)), NUMBER),
)
RULES = st.recursive(
    CONDITION,
    lambda rules: st.one_of(
        st.builds(_joined, st.tuples(rules, rules), st.sampled_from(["and", "or"])),
        rules.map(lambda rule: (f"not ({rule[0]})", lambda asked: not rule[1](asked))),
    ),
    max_leaves=12,
)
SUBJECTS = st.builds(
    lambda kind, numbers: subject(kind, (), **numbers),
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(NUMBERS), st.none() | NUMBER),
)


@given(RULES, SUBJECTS)
def test_any_rule_fires_as_its_parts_do(rule: Written, asked: Subject) -> None:
    text, means = rule
    assert parse(text).fires(asked) is means(asked)


@given(
    st.lists(st.sampled_from([*CONDITIONS, *COMPARED, "and", "or", "not", "(", ")", "7", "'"]))
    | st.text()
)
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
