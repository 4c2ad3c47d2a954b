"""One round of retraining: watch the champion, ask the triggers, learn, prove, promote.

Each step can be killed at any time. The promotion, which creates one file in the registry, changes
everything at once. Whatever is lost (a model learned, the state) is made again by the next round,
with the same result.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from stream_icd.errors import ChampionChanged, NoGoodRows, OverBudget, Overloaded
from stream_icd.history.archive import Selection, nothing_selected
from stream_icd.history.files import ArchivedWindow
from stream_icd.icd.recipe import Recipe
from stream_icd.lineage import Gate, Lineage
from stream_icd.printable import printable
from stream_icd.registry.aliases import Aliases, champion, current, promote, roll_back
from stream_icd.registry.find import folder_of
from stream_icd.registry.model import PackedModel
from stream_icd.registry.versions import existing_folder, import_folder, publish, read_lineage
from stream_icd.retraining.gate import Paired, decide, watch
from stream_icd.retraining.jobs import (
    ArchivedLesson,
    RunJob,
    compare_job,
    learn_job,
    run_job,
    score_job,
)
from stream_icd.retraining.learn import LearnedFrom, described
from stream_icd.retraining.settings import Retraining
from stream_icd.retraining.state import Begun, Compared, Scored, State, read_state, write_state
from stream_icd.retraining.triggers import Due, any_due, drift, every_period, every_windows
from stream_icd.retraining.windows import (
    Accumulated,
    Chosen,
    Marks,
    TooFew,
    accumulated,
    choose_windows,
    data_range,
)
from stream_icd.store.store import Store, open_store
from stream_icd.times import AHEAD
from stream_icd.version import __version__

BY = "retrain"

BATCH = 32
"""Windows that are scored at once; what is known of them is kept before the next ones."""

OnStep = Callable[[str], None]
"""Called when a step begins: `score` or `watch` windows, `learn`, `prove`, `publish`, `promote`,
`roll back`, `remember`."""

RoundOutcome = Literal[
    "not now", "kept", "promoted", "confirmed", "rolled back", "failed", "first champion"
]
"""`kept`: a challenger was learned and is not better. `failed`: learning failed; the champion
stays."""

OUTCOMES: tuple[RoundOutcome, ...] = get_args(RoundOutcome)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a round decided, as it is logged and announced.

    All numbers are of archived windows, except the generation.
    """

    outcome: RoundOutcome
    reason: str
    at: datetime
    champion: str = ""  # after the decision; empty if there is none
    challenger: str = ""  # the model that was compared with it; empty if there was none
    windows: int = 0  # that were looked at
    until: datetime | None = None  # end of the newest
    labelled: int = 0  # those with labels
    strayed: int = 0  # labels of windows that the archive does not have
    ahead: int = 0  # too far in the future to be used
    gate: Gate | None = None
    generation: int = 0  # of the aliases in force at the decision; 0 if there was no champion


def retrain(
    registry: Store,
    settings: Retraining,
    now: datetime,
    *,
    asked: bool = False,
    on_step: OnStep = lambda _step: None,
    run: RunJob = run_job,
) -> Decision:
    """Make one round, and return its decision.

    Args:
        asked: learn now, whatever the triggers say.
        run: where learning and comparing is done; by default in a process of its own.

    Raises:
        RegistryDamaged, HistoryDamaged, StoreError: registry or archive cannot be used; the
            champion stays.
    """
    aliases = current(registry)
    past = accumulated(open_store(settings.archive), now, settings.graph, settings.most_windows)
    if aliases is None:
        return _first_champion(registry, settings, past, now)
    state = read_state(registry, settings.name)
    if not past.windows and (state.attempted or state.scored):  # as of a disk that is not mounted
        return _Round(registry, settings, past, aliases, now, on_step, run).said(
            "not now", "the windows of earlier rounds are gone"
        )
    announced = state.generation if state.announced is None else state.announced
    # A generation whose file was deleted leaves its number to another one.
    state = replace(state, announced=min(announced, aliases.generation))
    if state.attempted_at is not None and state.attempted_at > now:  # the clock was ahead
        state = replace(state, attempted_at=now)
    state = _noticed(state, aliases, past)
    if settings.encoder is None:
        state = replace(state, begun=None)
    if state.begun is not None:
        past = past.until(state.begun.marks)
    round_ = _Round(registry, settings, past, aliases, now, on_step, run)
    try:
        if state.watched is not None:
            return round_.watched(state, state.watched)
        return round_.learned(state, asked=asked)
    except (OverBudget, Overloaded) as error:
        return round_.said("failed", str(error))


def _first_champion(
    registry: Store, settings: Retraining, past: Accumulated, now: datetime
) -> Decision:
    version = import_folder(registry, folder_of(settings.first), BY, now, settings.first)
    reason = f"the registry was empty: {settings.first} is the first champion"
    with suppress(ChampionChanged):  # another program made the first champion meanwhile
        promote(registry, version, reason, now, by=BY, seen=None)
    first, seen = champion(registry), _looked_at(past, now)
    return replace(seen, outcome="first champion", reason=first.reason, champion=first.champion)


def _noticed(state: State, aliases: Aliases, past: Accumulated) -> State:
    """Notice a promotion or a rollback, whoever made it: promotions are watched."""
    before, now = (state.generation, state.generation_id), (aliases.generation, aliases.id)
    state = replace(state, generation_id=aliases.id)
    if before in (now, (aliases.generation, None)):
        return state
    if aliases.generation == 1:  # the first champion: all archived windows may be learned from
        return replace(state, generation=aliases.generation, watched=None)
    marks = past.marks()
    return replace(
        state,
        generation=aliases.generation,
        watched=marks if aliases.change == "promoted" else None,
        rolled_back=marks if aliases.change == "rolled back" else state.rolled_back,
        attempted=marks,
        scored=(),
        begun=None,
        compared=None,
    )


@dataclass(frozen=True, slots=True)
class _Round:
    registry: Store
    settings: Retraining
    past: Accumulated
    aliases: Aliases
    now: datetime
    on_step: OnStep
    run: RunJob

    def watched(self, state: State, since: Marks) -> Decision:
        """Watch a new champion on the first windows since it was promoted."""
        assert self.aliases.previous is not None, "only a promotion is watched"
        windows, n_windows = self.past.after(since), self.settings.watch
        if state.compared is not None and state.compared.windows == len(windows):
            return self.said("not now", state.compared.reason)
        self.on_step("watch")
        place = self._place(self.aliases.champion)
        paired = self._compared(windows, n_windows, self.aliases.previous, place)
        found = watch(paired, n_windows, self.settings.rules, self.settings.seed)
        if found.state == "worse":
            return self._rolled_back(state, found.reason)
        if found.state == "watching":
            reason = f"watching the new champion: {found.reason}"
            self._remember(replace(state, compared=Compared(len(windows), reason)))
            return self.said("not now", reason)
        if (now := champion(self.registry)).id != self.aliases.id:
            return self.said("not now", f"{now.champion} became the champion meanwhile")
        self._remember(replace(state, watched=None))
        return self.said("confirmed", found.reason)

    def learned(self, state: State, *, asked: bool) -> Decision:
        """Learn and prove a challenger, if a trigger asks for it and there are enough windows."""
        state, due = self._asked_triggers(state, asked=asked)
        if not due.due:
            self._remember(state)
            return self.said("not now", due.reason)
        chosen = choose_windows(
            self.past.windows,
            self.settings.sizes,
            self.settings.seed,
            unseen=self._unseen(state),
            since=None if due.since is None else self.past.after(state.attempted)[-due.since :],
        )
        if isinstance(chosen, TooFew):
            self._remember(replace(state, begun=None))
            after = "" if state.rolled_back is None else " (they count from the last rollback on)"
            return self.said("not now", f"{due.reason}, but there are {chosen.reason}{after}")
        if self.settings.encoder is not None:
            state = replace(state, begun=Begun(self.past.marks(), due.reason, due.since))
            self._remember(state)
        try:
            decided = self._proved(chosen, due.reason)
        except (NoGoodRows, OverBudget, Overloaded) as error:
            decided = self.said("failed", f"{due.reason}: {error}")
        except ChampionChanged as error:
            return self.said("kept", f"{due.reason}: {error}")
        checkpoints = self._checkpoints()
        for path in checkpoints.files():
            checkpoints.delete(path)
        if decided.outcome == "promoted":
            state = _noticed(state, current(self.registry) or self.aliases, self.past)
        marks = self.past.marks()
        state = replace(state, attempted_at=self.now, attempted=marks, scored=(), begun=None)
        self._remember(state)
        return decided

    def _asked_triggers(self, state: State, *, asked: bool) -> tuple[State, Due]:
        if state.begun is not None:
            return state, Due(True, state.begun.reason, state.begun.since)
        if asked:
            return state, Due(True, "asked by command")
        triggers, new = self.settings.triggers, self.past.after(state.attempted)
        answers = list[Due]()
        if triggers.windows is not None:
            answers.append(every_windows(triggers.windows, len(new)))
        if triggers.period is not None:
            answers.append(every_period(triggers.period, state.attempted_at, self.now))
        if triggers.drift:
            state = self._scored(state, new)
            answers.append(drift([scored.hidden_edges for scored in state.scored]))
            nmi = [None if s.nmi is None else 100 * s.nmi for s in state.scored]
            if any(percent is not None for percent in nmi):
                answers.append(drift(nmi, "NMI", "%"))
        return state, any_due(answers)

    def _scored(self, state: State, windows: Sequence[ArchivedWindow]) -> State:
        """Score the champion in each window once, and again when its labels come."""
        known = {scored.name: scored for scored in state.scored}
        labels = self.past.labels
        done = {name for name, scored in known.items() if scored.labelled or name not in labels}
        missing = [window for window in windows if window.name not in done]
        for start in range(0, len(missing), BATCH):
            self.on_step("score")
            batch = missing[start : start + BATCH]
            known |= {scored.name: scored for scored in self._scored_batch(batch)}
            scored = (known[window.name] for window in windows if window.name in known)
            state = replace(state, scored=tuple(scored))
            self._remember(state)
        return state

    def _scored_batch(self, windows: Sequence[ArchivedWindow]) -> list[Scored]:
        """Score windows; those that cannot be read, or all if they take too long, have no score."""
        settings, lessons = self.settings, self._lessons(windows)
        place = self._place(self.aliases.champion)
        what = settings.archive, lessons, place, settings.seed, settings.method
        try:
            scored: list[Scored] = self.run(partial(score_job, *what), settings.budget)
        except OverBudget:
            scored = []
        names = {window.name for window in scored}
        missing = [window for window in windows if window.name not in names]
        return scored + [Scored(*window.name, None, True) for window in missing]

    def _proved(self, chosen: Chosen, why: str) -> Decision:
        settings, parent = self.settings, self.aliases.champion
        data, lessons = data_range(chosen.learn), self._lessons(chosen.learn)
        self.on_step("learn")
        origin = (
            f"{data.windows} windows of {', '.join(data.graphs)} from {data.start.isoformat()} "
            f"to {data.end.isoformat()}"
        )
        recipe = settings.encoder or Recipe(name=settings.name)
        recipe = recipe.changed(name=settings.name, seed=settings.seed, data=origin)
        checkpoints = self._checkpoints().uri
        job = partial(learn_job, settings.archive, lessons, recipe, settings.threads, checkpoints)
        made: tuple[PackedModel, tuple[LearnedFrom, ...]] = self.run(job, settings.budget)
        model, learned_from = made
        if model.version == parent:
            return self.said("kept", f"{why}: the same model was learned again", model.version)
        self.on_step("prove")
        with tempfile.TemporaryDirectory(prefix="stream-icd-") as folder:
            for name, content in model.files.items():
                (Path(folder) / name).write_bytes(content)
            paired = self._compared(chosen.prove, len(chosen.prove), parent, folder)
        verdict = decide(paired, settings.rules, settings.seed)
        proved, passed, reason = data_range(chosen.prove), verdict.promote, verdict.reason
        span = proved.start, proved.end, proved.windows
        gate = Gate(parent, model.version, *span, passed, reason, verdict.figures)
        reason = f"{why}: {reason}"
        if not passed:
            return self.said("kept", reason, model.version, gate)
        data = replace(data, labelled=sum(window.by == "labels" for window in learned_from))
        lineage = Lineage(BY, self.now, __version__, parent=parent, data=data, gate=gate)
        self.on_step("publish")
        files = described(learned_from, data, gate) | model.files
        publish(self.registry, replace(model, files=files), lineage)
        self.on_step("promote")
        promote(self.registry, model.version, reason, self.now, by=BY, seen=self.aliases)
        self.on_step("remember")
        return self.said("promoted", reason, model.version, gate, champion=model.version)

    def _rolled_back(self, state: State, reason: str) -> Decision:
        self.on_step("roll back")
        try:
            back = roll_back(self.registry, reason, self.now, by=BY, seen=self.aliases)
        except ChampionChanged as error:
            return self.said("kept", str(error))
        self.on_step("remember")
        self._remember(_noticed(state, back, self.past))
        return self.said("rolled back", reason, self.aliases.champion, champion=back.champion)

    def _compared(
        self, windows: Sequence[ArchivedWindow], most: int, champion: str, challenger: str
    ) -> list[Paired]:
        """Compare two models on the first `most` of the windows that can be read."""
        if not windows:
            return []
        settings, lessons, before = self.settings, self._lessons(windows), self._place(champion)
        seed, method = settings.seed, settings.method
        what = settings.archive, lessons, most, before, challenger, seed, method
        paired: list[Paired] = self.run(partial(compare_job, *what), settings.budget)
        return paired

    def _unseen(self, state: State) -> list[ArchivedWindow]:
        """The windows after the last rollback that the champion did not learn from."""
        data = read_lineage(self.registry, self.aliases.champion).data
        marks = {} if data is None else dict(data.until())
        for graph, end in (state.rolled_back or {}).items():
            marks[graph] = max(end, marks.get(graph, end))
        return self.past.after(marks)

    def _lessons(self, windows: Sequence[ArchivedWindow]) -> tuple[ArchivedLesson, ...]:
        return tuple((window, self.past.labels.get(window.name)) for window in windows)

    def _place(self, version: str) -> str:
        return existing_folder(self.registry, version).uri

    def _checkpoints(self) -> Store:
        return self.registry.below(f"retraining/{self.settings.name}.checkpoints")

    def _remember(self, state: State) -> None:
        write_state(self.registry, self.settings.name, state)

    def said(
        self,
        outcome: RoundOutcome,
        reason: str,
        challenger: str = "",
        gate: Gate | None = None,
        *,
        champion: str = "",
    ) -> Decision:
        """The decision of this round; `champion` if it is another one now."""
        if outcome == "not now" and self.past.ahead:
            graph, snapshot = self.past.ahead[0]
            reason += (
                f"; {len(self.past.ahead)} windows are not used, since they end more than "
                f"{AHEAD.days} days ahead of the clock, such as {printable(snapshot)} of "
                f"{printable(graph)}"
            )
        elif outcome == "not now" and not self.past.windows:
            archive = open_store(self.settings.archive)
            nothing = nothing_selected(archive, Selection("snapshots", self.settings.graph))
            reason += f"; {printable(str(nothing))}"
        return replace(
            _looked_at(self.past, self.now),
            outcome=outcome,
            reason=reason,
            champion=champion or self.aliases.champion,
            challenger=challenger,
            gate=gate,
            generation=self.aliases.generation,
        )


def _looked_at(past: Accumulated, now: datetime) -> Decision:
    """A decision that says only what the archive holds."""
    return Decision(
        "not now",
        "",
        now,
        windows=len(past.windows),
        until=max((window.window.end for window in past.windows), default=None),
        labelled=len(past.labels),
        strayed=past.strayed,
        ahead=len(past.ahead),
    )
