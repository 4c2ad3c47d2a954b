"""How often ours is first among other people's methods, and where it is not, by how much."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.lab.markdown import head, line
from benchmarks.lab.measured import OF_ROW, TITLES, Measured, scores
from benchmarks.lab.packages import lab_methods
from benchmarks.lab.tos import Measure

OURS = ("bp", "bp-unlabelled", "bp-alone", "icd", "icd-hops", "icd-c", "icd-gat", "icd-gin")

SHOWN = ("bp", "bp-unlabelled", "icd", "icd-hops")
"""Ours with K given, each compared with all other people's methods."""

K_UNKNOWN = "bp-alone"
"""Ours without K, compared with the methods that find K themselves."""

K_KEPT = 0.05
"""Modularity and NCut depend on K: compared are methods whose mean K is that close to ours."""

AS_GOOD = 1.0
"""Points of NMI, or of modularity without known communities, that count as just as good."""

EXPLANATION = """Compared with other people's methods on the same graphs; each cell is the number of
data sets on which ours is first (or as good to the last printed digit), and the largest distance to
a better one. `bp`, `bp-unlabelled`, `icd` and `icd-hops` are given K and compared with all;
`bp-alone` does not know K and is compared with methods that find it themselves. Modularity and NCut
depend on K, so there only methods count whose K is within {kept:.0%} of ours. "As good" counts only
methods at most {as_good:.0f} point of NMI (else modularity) behind ours. TOS is computed among the
methods measured here. Two methods are always compared on the graphs on which both ran.

The three `bp` look for communities that describe the graph in the fewest bits. Of real graphs,
these are nearer to known classes than those of the highest modularity ([detection](detection.md)),
so on real data, others have more modularity.
"""


Compared = Callable[[Measured, str, str, str], tuple[float, float] | None]
"""Values of two methods on a data set; None where one has none."""

Counts = Callable[[Measured, str, str, str], bool]
"""Whether the second of two methods is compared with the first on a data set."""


@dataclass(frozen=True, slots=True)
class Contest:
    """What is compared.

    Attributes:
        title: of the line.
        sign: 1 if a higher value is better, else -1.
        tie: values closer than this are equal: half of the last printed digit.
        form: of a value.
        values, counts: see `Compared` and `Counts`.
        time: distances are ratios, and a method without a rival is first.
    """

    title: str
    sign: int
    tie: float
    form: Callable[[float], str]
    values: Compared
    counts: Counts
    time: bool = False


def _contests() -> list[Contest]:
    percent, plain = "{:.2f}".format, "{:.1f}".format
    contests = []
    for measure, column in OF_ROW.items():
        counts = _same_k if measure in ("modularity", "ncut") else _always
        title = TITLES[measure]
        if measure == "ncut":
            contests.append(Contest(title, -1, 0.05, plain, _on_common_graphs(column), counts))
        else:
            values = _on_common_graphs(column, 100)
            contests.append(Contest(title, 1, 0.005, percent, values, counts))
    seconds = partial(
        Contest, sign=-1, tie=0.0, form="{:.2g}".format, values=_on_common_graphs("seconds")
    )
    contests.append(seconds("seconds", counts=_always, time=True))
    contests.append(seconds("seconds, as good", counts=_as_good, time=True))
    for measure in OF_ROW:
        counts = _same_k if measure in ("modularity", "ncut") else _always
        title = f"TOS, {TITLES[measure]}"
        contests.append(Contest(title, 1, 0.005, percent, _trade_offs(measure), counts))
    return contests


def _on_common_graphs(column: str, factor: float = 1) -> Compared:
    def values(found: Measured, name: str, ours: str, other: str) -> tuple[float, float] | None:
        common = found.common_graphs(name, ours, other)
        mine, theirs = (found.mean(name, one, column, common) for one in (ours, other))
        return None if mine is None or theirs is None else (factor * mine, factor * theirs)

    return values


def _trade_offs(measure: Measure) -> Compared:
    def values(found: Measured, name: str, ours: str, other: str) -> tuple[float, float] | None:
        common = found.common_graphs(name, ours, other)
        among = scores(found, name, measure, graphs=common)
        if ours not in among or other not in among:
            return None
        return among[ours], among[other]

    return values


def _always(_found: Measured, _name: str, _ours: str, _other: str) -> bool:
    return True


def _same_k(found: Measured, name: str, ours: str, other: str) -> bool:
    pair = _on_common_graphs("k_found")(found, name, ours, other)
    return pair is not None and abs(pair[1] - pair[0]) <= K_KEPT * pair[0]


def _as_good(found: Measured, name: str, ours: str, other: str) -> bool:
    pair = _on_common_graphs("nmi", 100)(found, name, ours, other)
    pair = pair or _on_common_graphs("modularity", 100)(found, name, ours, other)
    return pair is not None and pair[1] >= pair[0] - AS_GOOD


@dataclass(frozen=True, slots=True)
class Place:
    """Where ours stands on a data set: the best other method, and both values."""

    data_set: str
    other: str
    ours: float
    theirs: float
    first: bool

    def behind(self, contest: Contest) -> str:
        """How far ours is behind."""
        if contest.time:
            return f"{self.ours / self.theirs:.1f} times"
        return contest.form(abs(self.ours - self.theirs))

    def distance(self, contest: Contest) -> float:
        """The same, to compare."""
        return self.ours / self.theirs if contest.time else abs(self.ours - self.theirs)


def places(found: Measured, ours: str, contest: Contest) -> list[Place]:
    """Of one of ours in a contest, by data set."""
    result = []
    for name in found.data_sets:
        rivals = []
        for other in _others(found, ours):
            pair = contest.values(found, name, ours, other)
            if pair is None or not contest.counts(found, name, ours, other):
                continue
            rivals.append((contest.sign * (pair[1] - pair[0]), other, pair))
        if not rivals and contest.time and found.mean(name, ours, "seconds"):
            result.append(Place(name, "", 1.0, 1.0, first=True))
        if rivals:
            lead, other, (mine, theirs) = max(rivals)
            result.append(Place(name, other, mine, theirs, first=lead <= contest.tie))
    return result


def _others(found: Measured, ours: str) -> list[str]:
    others = [method for method in found.methods if method not in OURS]
    if ours != K_UNKNOWN:
        return others
    known = lab_methods()
    return [other for other in others if known[other].k == "ignored"]


def how_often_first(found: Measured) -> list[str]:
    """The table of all contests, then that of the places where `bp` is not first."""
    shown = [one for one in (*SHOWN, K_UNKNOWN) if one in found.methods]
    if not shown:
        return []
    lines, behind = [], []
    for contest in _contests():
        by_method = {one: places(found, one, contest) for one in shown}
        if not any(by_method.values()):
            continue
        lines.append(line([contest.title, *(_cell(by_method[one], contest) for one in shown)]))
        behind += [_behind(place, contest) for place in by_method.get("bp", []) if not place.first]
    names = [f"`{one}`" + (", K unknown" if one == K_UNKNOWN else "") for one in shown]
    return [
        "## How often ours is first",
        "",
        EXPLANATION.format(kept=K_KEPT, as_good=AS_GOOD),
        *head(["measure", *names]),
        *lines,
        "",
        *_where_not(behind),
    ]


def _cell(places: Sequence[Place], contest: Contest) -> str:
    if not places:
        return ""
    text = f"{sum(place.first for place in places)} of {len(places)}"
    last = max(
        (place for place in places if not place.first),
        key=lambda place: place.distance(contest),
        default=None,
    )
    if last is None:
        return text
    return f"{text}; {last.behind(contest)} ({last.data_set}, {last.other})"


def _behind(place: Place, contest: Contest) -> str:
    values = contest.form(place.ours), f"{place.other}: {contest.form(place.theirs)}"
    return line([contest.title, place.data_set, *values, place.behind(contest)])


def _where_not(behind: Sequence[str]) -> list[str]:
    if not behind:
        return []
    return [
        "Where `bp` is not first:",
        "",
        *head(["measure", "data set", "`bp`", "first", "apart"]),
        *behind,
        "",
    ]
