"""Rules of alerts: a small typed language of conditions, such as `merged and bits >= 20`.

    rule      = both { "or" both }
    both      = one { "and" one }
    one       = "not" one | "(" rule ")" | condition
    condition = KIND                            an event of this kind; or `moved`, of a node
              | NUMBER_FIELD COMPARED number    bits, size, size_before, overlap, away, parents, …
              | "community" ("=" | "!=") id     takes part in the event
              | TEXT_FIELD ("=" | "!=" | "contains") text      graph, name
              | "node" ("=" | "!=") id
              | "node" "in" file

A comparison with something that is not known is false. Words with blanks or brackets are quoted.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from stream_icd.core.errors import BadSettings
from stream_icd.core.events import EVENT_KINDS
from stream_icd.core.printable import did_you_mean

MOVED, _CONTINUED = "moved", "continued"
NUMBERS = ("bits", "size", "size_before", "overlap", "away", "parents", "children")
_TEXTS = ("graph", "name")
_IDS = ("community", "node")
_FIELDS = (*NUMBERS, *_TEXTS, *_IDS)
_CONDITIONS = (*EVENT_KINDS, MOVED, *_FIELDS)

_MOST_WORDS = 200
"""Of a rule, so that nested brackets never exhaust the stack."""

_COMPARED: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
}
_TOKEN = re.compile(r"""\s*(?:("[^"]*"|'[^']*')|(<=|>=|!=|[<>=()])|([^\s<>=!()'"]+))""")


@dataclass(frozen=True, slots=True)
class Subject:
    """What a rule is asked about: an event of a community, or a node that moved.

    Attributes:
        kind: one of `EVENT_KINDS`, or `MOVED`.
        communities: the ids of those that take part.
        numbers: the value of each of `NUMBERS`; None if it is not known.
        among: whether one of these nodes, ids as text, takes part.
    """

    graph: str
    kind: str
    communities: tuple[int, ...]
    numbers: Mapping[str, float | None]
    name: str | None
    among: Callable[[frozenset[str]], bool]


_Test = Callable[[Subject], bool]
_ReadNodes = Callable[[str], frozenset[str]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, as it was written, and its condition.

    Attributes:
        moves: it asks for nodes that moved.
        continues: it names `continued`, which nearly all communities do in each window.
    """

    text: str
    fires: _Test
    moves: bool = False
    continues: bool = False

    def of(self, subject: Subject) -> bool:
        """Whether it fires; for a community that continues, only if it names that."""
        return (subject.kind != _CONTINUED or self.continues) and self.fires(subject)

    @staticmethod
    def parse(text: str, read_nodes: _ReadNodes) -> Rule:
        """Parse a rule; `read_nodes` returns the ids in a file, as text.

        Raises `BadSettings`, which points at the word that is wrong, or as `read_nodes`.

        >>> try:
        ...     Rule.parse("merged and bitz >= 20", read_nodes=lambda file: frozenset())
        ... except BadSettings as error:
        ...     print(error)
        --rule: 'bitz' is no kind of event and no field; did you mean bits?
        merged and bitz >= 20
                   ^^^^
        """
        return _Parser(text, _words(text), read_nodes).rule()


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    start: int
    end: int
    quoted: bool = False

    def is_(self, *words: str) -> bool:
        return not self.quoted and self.text in words


def _words(text: str) -> list[_Word]:
    words, at = [], 0
    while text[at:].strip():
        token = _TOKEN.match(text, at)
        if token is None:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            _refuse(text, _Word("", start, start + 1), f"{text[start]!r} is not expected here")
        quoted, sign, word = token.groups()
        content = quoted[1:-1] if quoted else sign or word
        at = token.end()
        words.append(_Word(content, at - len(quoted or content), at, bool(quoted)))
    if len(words) > _MOST_WORDS:
        _refuse(text, words[_MOST_WORDS], f"a rule has at most {_MOST_WORDS} words")
    return words


def _refuse(text: str, word: _Word, reason: str) -> NoReturn:
    mark = " " * word.start + "^" * max(word.end - word.start, 1)
    shown = "".join(sign if sign.isprintable() else " " for sign in text)
    raise BadSettings(f"--rule: {reason}\n{shown}\n{mark}")


@dataclass(slots=True)
class _Parser:
    text: str
    words: list[_Word]
    read_nodes: _ReadNodes
    moved: _Word | None = field(default=None, init=False)
    continues: bool = field(default=False, init=False)
    asks_for_nodes: bool = field(default=False, init=False)

    def rule(self) -> Rule:
        fires = self._either()
        if self.words:
            self._fail(self.words[0], f"expected and, or, or the end, not {self.words[0].text!r}")
        # Nearly every window has nodes that moved: without nodes to watch, all would be alerts.
        if self.moved is not None and not self.asks_for_nodes:
            self._fail(self.moved, "say which nodes, such as: node in watch.csv and moved")
        return Rule(self.text, fires, moves=self.moved is not None, continues=self.continues)

    def _either(self) -> _Test:
        tests = [self._both()]
        while self._take_if("or"):
            tests.append(self._both())
        return tests[0] if len(tests) == 1 else lambda subject: any(t(subject) for t in tests)

    def _both(self) -> _Test:
        tests = [self._one()]
        while self._take_if("and"):
            tests.append(self._one())
        return tests[0] if len(tests) == 1 else lambda subject: all(t(subject) for t in tests)

    def _one(self) -> _Test:
        if self._take_if("not"):
            test = self._one()
            return lambda subject: not test(subject)
        if self._take_if("("):
            test = self._either()
            closing = self._take("a closing bracket")
            return test if closing.is_(")") else self._fail(closing, "expected ) here")
        return self._condition()

    def _condition(self) -> _Test:
        word = self._take("a condition, such as merged or bits >= 20")
        if word.is_(*EVENT_KINDS, MOVED):
            if word.text == MOVED:
                self.moved = word
            self.continues = self.continues or word.text == _CONTINUED
            return lambda subject: subject.kind == word.text
        if word.is_(*NUMBERS):
            return self._number(word.text)
        if word.is_("community"):
            sign = self._sign("compare a community with", "=", "!=")
            return self._negated_if(sign, self._community())
        if word.is_("node"):
            return self._node()
        if word.is_(*_TEXTS):
            return self._named(word.text)
        hint = did_you_mean(word.text, _CONDITIONS)
        return self._fail(word, f"{word.text!r} is no kind of event and no field{hint}")

    def _number(self, name: str) -> _Test:
        sign = self._sign(f"compare {name} with", *_COMPARED)
        compared, limit = _COMPARED[sign.text], self._finite(f"{name} is compared with a number")

        def test(subject: Subject) -> bool:
            value = subject.numbers.get(name)
            return value is not None and compared(value, limit)

        return test

    def _community(self) -> _Test:
        word = self._take("the id of a community")
        if not (word.text.isascii() and word.text.isdigit()):
            self._fail(word, f"{word.text!r} is no id of a community: give a whole number")
        sought = int(word.text)
        return lambda subject: sought in subject.communities

    def _node(self) -> _Test:
        self.asks_for_nodes = True
        if self._take_if("in"):
            word = self._take("a file of nodes, such as watch.csv")
            nodes = self.read_nodes(word.text)
            return lambda subject: subject.among(nodes)
        sign = self._sign("after node, expected", "in", "=", "!=")
        nodes = frozenset((self._take("the id of a node").text,))
        return self._negated_if(sign, lambda subject: subject.among(nodes))

    def _named(self, name: str) -> _Test:
        sign = self._sign(f"compare {name} with", "=", "!=", "contains")
        sought = self._take("a text").text

        def test(subject: Subject) -> bool:
            value = subject.graph if name == "graph" else subject.name
            if value is None:
                return False
            holds = sought in value if sign.text == "contains" else sought == value
            return holds != sign.is_("!=")

        return test

    def _negated_if(self, sign: _Word, test: _Test) -> _Test:
        return (lambda subject: not test(subject)) if sign.is_("!=") else test

    def _finite(self, rule: str) -> float:
        word = self._take("a number")
        try:
            number = math.nan if word.quoted else float(word.text)
        except ValueError:
            number = math.nan
        return number if math.isfinite(number) else self._fail(word, f"{rule}, not {word.text!r}")

    def _sign(self, reason: str, *signs: str) -> _Word:
        word = self._take(f"one of {' '.join(signs)}")
        return word if word.is_(*signs) else self._fail(word, f"{reason} {' '.join(signs)}")

    def _take_if(self, text: str) -> bool:
        is_next = bool(self.words) and self.words[0].is_(text)
        if is_next:
            del self.words[0]
        return is_next

    def _take(self, expected: str) -> _Word:
        if not self.words:
            end = len(self.text.rstrip())
            self._fail(_Word("", end, end), f"the rule ends, expected {expected}")
        return self.words.pop(0)

    def _fail(self, word: _Word, reason: str) -> NoReturn:
        _refuse(self.text, word, reason)
