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
from typing import Any, Literal, get_args

from stream_icd.core.errors import ChampionChanged, NoGoodRows, OverBudget, Overloaded
from stream_icd.core.lineage import Gate, Lineage
from stream_icd.core.printable import printable
from stream_icd.core.store.store import Store, open_store
from stream_icd.core.times import AHEAD
from stream_icd.core.version import __version__
from stream_icd.history.archive import Archive, Selection
from stream_icd.history.files import ArchivedWindow
from stream_icd.learning.retraining.gate import Paired, compare_job, decide, score_job, watch
from stream_icd.learning.retraining.learn import Made, RunJob, learn_job, run_training
from stream_icd.learning.retraining.settings import Retraining
from stream_icd.learning.retraining.state import (
    BegunTraining,
    ComparedWindows,
    RetrainerState,
    ScoredWindow,
)
from stream_icd.learning.retraining.triggers import Due, triggered
from stream_icd.learning.retraining.windows import Accumulated, ArchivedLesson, ChosenWindows
from stream_icd.learning.training.yardstick import WARM_UP
from stream_icd.registry.aliases import Aliases, champion, current, promote, roll_back
from stream_icd.registry.find import folder_of
from stream_icd.registry.versions import existing_folder, import_folder, publish, read_lineage

BY = "retrain"

_BATCH = 32
"""Windows that are scored at once; what is known of them is kept before the next ones."""

_OnStep = Callable[[str], None]
"""Called when a step begins: `score` or `watch` windows, `learn`, `prove`, `publish`, `promote`,
`roll back`, `remember`."""

_RoundOutcome = Literal[
    "not now", "kept", "promoted", "confirmed", "rolled back", "failed", "first champion"
]
"""`kept`: a challenger was learned and is not better. `failed`: learning failed; the champion
stays."""

OUTCOMES: tuple[_RoundOutcome, ...] = get_args(_RoundOutcome)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a round decided, as it is logged and announced.

    All numbers are of archived windows, except the generation.
    """

    outcome: _RoundOutcome
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
    on_step: _OnStep = lambda _step: None,
    run: RunJob = run_training,
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
    archive = Archive(open_store(settings.archive))
    past = Accumulated.look_up(archive, now, settings.graph, settings.most_windows)
    if aliases is None:
        return _first_champion(registry, settings, past, now)
    state = RetrainerState.read(registry, settings.name)
    round_ = _Round(registry, settings, past, aliases, now, state, on_step, run)
    if not past.windows and (state.attempted or state.scored):  # as of a disk that is not mounted
        return round_.decision("not now", "the windows of earlier rounds are gone")
    # Only now: an archive that is away would seem to have lost its windows.
    round_.take_up()
    try:
        return round_.learned(asked=asked) if round_.state.watched is None else round_.watched()
    except (OverBudget, Overloaded) as error:
        return round_.decision("failed", str(error))


def _first_champion(
    registry: Store, settings: Retraining, past: Accumulated, now: datetime
) -> Decision:
    version = import_folder(registry, folder_of(settings.first), BY, now, settings.first)
    reason = f"the registry was empty: {settings.first} is the first champion"
    with suppress(ChampionChanged):  # another program made the first champion meanwhile
        promote(registry, version, reason, now, by=BY, seen=None)
    # Read again: that of the other program may be another model.
    first, seen = champion(registry), _looked_at(past, now)
    return replace(seen, outcome="first champion", reason=first.reason, champion=first.champion)


@dataclass(slots=True)
class _Round:
    registry: Store
    settings: Retraining
    past: Accumulated
    aliases: Aliases  # that the round began with
    now: datetime
    state: RetrainerState
    on_step: _OnStep
    run: RunJob

    def take_up(self) -> None:
        state, at = self.state, self.state.attempted_at
        announced = state.generation if state.announced is None else state.announced
        self.state = replace(
            state,
            # A generation whose file was deleted leaves its number to another one.
            announced=min(announced, self.aliases.generation),
            attempted_at=None if at is None else min(at, self.now),  # the clock may have been ahead
            begun=state.begun if self.settings.encoder.trains_encoder else None,
        )
        self._notice(self.aliases)

    def _notice(self, aliases: Aliases) -> None:
        """Notice a promotion or a rollback, whoever made it: promotions are watched."""
        state, generation = self.state, aliases.generation
        self.state = replace(state, generation=generation, generation_id=aliases.id)
        if state.generation == generation and state.generation_id in (aliases.id, None):
            return
        if generation == 1:  # the first champion: all archived windows may be learned from
            self.state = replace(self.state, watched=None, scored=())
            return
        marks = self.past.marks()
        self.state = replace(
            self.state,
            watched=marks if aliases.change == "promoted" else None,
            rolled_back=marks if aliases.change == "rolled back" else state.rolled_back,
            attempted=marks,
            scored=(),
            begun=None,
            compared=None,
        )

    def watched(self) -> Decision:
        """Watch a new champion on the first windows since it was promoted."""
        assert self.state.watched is not None
        assert self.aliases.previous is not None, "only a promotion is watched"
        windows, n_windows = self.past.after(self.state.watched), self.settings.watch
        compared = self.state.compared
        if compared is not None and compared.windows == len(windows):
            return self.decision("not now", compared.reason)
        self.on_step("watch")
        place = self._place(self.aliases.champion)
        paired = self._compared(windows, n_windows, self.aliases.previous, place)
        verdict = watch(paired, n_windows, self.settings.rules, self.settings.seed)
        if verdict.state == "worse":
            return self._rolled_back(verdict.reason)
        if verdict.state == "watching":
            reason = f"watching the new champion: {verdict.reason}"
            self._remember(compared=ComparedWindows(len(windows), reason))
            return self.decision("not now", reason)
        # The comparison took minutes: who replaced the champion meanwhile is not confirmed.
        if (now := champion(self.registry)).id != self.aliases.id:
            return self.decision("not now", f"{now.champion} became the champion meanwhile")
        self._remember(watched=None)
        return self.decision("confirmed", verdict.reason)

    def learned(self, *, asked: bool) -> Decision:
        """Learn and prove a challenger, if a trigger asks for it and there are enough windows.

        A training that was begun goes on with the windows that it was begun with: at once if it was
        interrupted, and with the next trigger if its budget was used up.
        """
        due = self._due(asked=asked)
        if not due.due:
            self._remember()
            return self.decision("not now", due.reason)
        now, waiting = self.past.marks(), self.state.begun
        begun = waiting or BegunTraining(now, due.reason, due.since, self.state.attempted)
        # As when the training began: its checkpoint is of these windows only.
        self.past = self.past.until(begun.marks)
        chosen = self._chosen(begun)
        if isinstance(chosen, str):
            self._remember(begun=None)
            return self.decision("not now", f"{begun.reason}, but there are {chosen}")
        trains = self.settings.encoder.trains_encoder
        # Before learning: if this is killed, the next round goes on with the same windows.
        self._remember(begun=begun if trains else None)
        try:
            decided, used_up = self._proved(chosen, begun.reason)
        except (NoGoodRows, OverBudget, Overloaded) as error:
            decided = self.decision("failed", f"{begun.reason}: {error}")
            used_up = isinstance(error, OverBudget)
        except ChampionChanged as error:
            # Nothing is remembered: the next round notices the other champion first.
            return self.decision("kept", f"{begun.reason}: {error}")
        goes_on = trains and used_up and decided.outcome != "promoted"
        if not goes_on:
            # Before the state: if this is killed in between, the same is learned once more.
            self._forget_checkpoints()
        if decided.outcome == "promoted":
            self._notice(current(self.registry) or self.aliases)
        # After a pause, triggers count from the last part of the training.
        paused = goes_on or (waiting is not None and waiting.paused)
        self._remember(
            attempted_at=self.now,
            attempted=now if paused else begun.marks,
            scored=(),
            begun=replace(begun, paused=True) if goes_on else None,
        )
        return decided

    def _chosen(self, begun: BegunTraining) -> ChosenWindows | str:
        attempted = self.past.after(begun.attempted)
        chosen = self.past.choose(
            self.settings.sizes,
            self.settings.seed,
            unseen=self._unseen(),
            since=None if begun.since is None else attempted[-begun.since :],
        )
        if isinstance(chosen, str) and self.state.rolled_back is not None:
            return f"{chosen} (they count from the last rollback on)"
        return chosen

    def _forget_checkpoints(self) -> None:
        checkpoints = self._checkpoints()
        for path in checkpoints.files():
            checkpoints.delete(path)

    def _due(self, *, asked: bool) -> Due:
        begun = self.state.begun
        if begun is not None and not begun.paused:
            return Due(True, begun.reason, begun.since)
        if asked:
            return Due(True, "asked by command")
        new = self.past.after(self.state.attempted)
        if self.settings.drift:
            self._score(new)
        state = self.state
        return triggered(self.settings, len(new), state.attempted_at, self.now, state.scored)

    def _score(self, windows: Sequence[ArchivedWindow]) -> None:
        """Score the champion in each window once, and again when its labels come."""
        scores = {scored.name: scored for scored in self.state.scored}
        labels = self.past.labels
        done = {name for name, scored in scores.items() if scored.labelled or name not in labels}
        missing = [window for window in windows if window.name not in done]
        for start in range(0, len(missing), _BATCH):
            self.on_step("score")
            batch = missing[start : start + _BATCH]
            scores |= {scored.name: scored for scored in self._scored_batch(batch)}
            # After each batch, so that what ends a later one does not lose this.
            scored = (scores[window.name] for window in windows if window.name in scores)
            self._remember(scored=tuple(scored))

    def _scored_batch(self, windows: Sequence[ArchivedWindow]) -> list[ScoredWindow]:
        """Score windows; those that cannot be read, or all if they take too long, have no score."""
        place = self._place(self.aliases.champion)
        lessons, warm_up = self.past.lessons(windows), self._warm_up(windows)
        job = partial(score_job, self.settings, lessons, warm_up, place)
        try:
            scored: list[ScoredWindow] = self.run(job, self.settings.budget)
        except OverBudget:
            scored = []
        names = {window.name for window in scored}
        missing = [window for window in windows if window.name not in names]
        # Noted as labelled: or labels that come later would make it try again.
        return scored + [ScoredWindow(*window.name, None, True) for window in missing]

    def _proved(self, chosen: ChosenWindows, why: str) -> tuple[Decision, bool]:
        """The decision about a challenger, and whether its encoder has not learned all it could."""
        settings, parent = self.settings, self.aliases.champion
        data, lessons = chosen.learn_range, self.past.lessons(chosen.learn)
        self.on_step("learn")
        origin = (
            f"{data.windows} windows of {', '.join(data.graphs)} from {data.start.isoformat()} "
            f"to {data.end.isoformat()}"
        )
        recipe = settings.encoder.changed(name=settings.name, seed=settings.seed, data=origin)
        checkpoints, champion_place = self._checkpoints().uri, self._place(parent)
        job = partial(learn_job, settings, lessons, recipe, checkpoints, champion_place)
        learned: Made = self.run(job, settings.budget)
        model, stopped = learned.model, learned.stopped
        # The version is a digest of the files: there is nothing to compare.
        if model.version == parent:
            reason = f"{why}: the same model was learned again"
            return self.decision("kept", reason, model.version), stopped
        self.on_step("prove")
        # As files, since the comparison opens them in a process of its own.
        with tempfile.TemporaryDirectory(prefix="stream-icd-") as folder:
            for name, content in model.files.items():
                (Path(folder) / name).write_bytes(content)
            paired = self._compared(chosen.prove, len(chosen.prove), parent, folder)
        verdict = decide(paired, settings.rules, settings.seed)
        proved = chosen.prove_range
        gate = Gate(
            champion=parent,
            challenger=model.version,
            start=proved.start,
            end=proved.end,
            windows=proved.windows,
            passed=verdict.promote,
            reason=verdict.reason,
            figures=verdict.figures,
        )
        reason = f"{why}: {verdict.reason}"
        if not verdict.promote:
            return self.decision("kept", reason, model.version, gate), stopped
        data = replace(data, labelled=sum(window.by == "labels" for window in learned.windows))
        lineage = Lineage(BY, self.now, __version__, parent=parent, data=data, gate=gate)
        # Published first: aliases never name a version that is not there.
        self.on_step("publish")
        publish(self.registry, replace(model, files=learned.files(data, gate)), lineage)
        self.on_step("promote")
        promote(self.registry, model.version, reason, self.now, by=BY, seen=self.aliases)
        self.on_step("remember")
        promoted = self.decision("promoted", reason, model.version, gate, champion=model.version)
        return promoted, stopped

    def _rolled_back(self, reason: str) -> Decision:
        self.on_step("roll back")
        try:
            back = roll_back(self.registry, reason, self.now, by=BY, seen=self.aliases)
        except ChampionChanged as error:
            return self.decision("kept", str(error))
        self.on_step("remember")
        # Noticed here, with what was archived now: only later windows may prove a model.
        self._notice(back)
        self._remember()
        return self.decision("rolled back", reason, self.aliases.champion, champion=back.champion)

    def _compared(
        self, windows: Sequence[ArchivedWindow], most: int, champion: str, challenger: str
    ) -> list[Paired]:
        """Compare two models on the first `most` of the windows that can be read."""
        if not windows:
            return []
        lessons, before = self.past.lessons(windows), self._place(champion)
        warm_up = self._warm_up(windows)
        job = partial(compare_job, self.settings, lessons, warm_up, most, before, challenger)
        paired: list[Paired] = self.run(job, self.settings.budget)
        return paired

    def _warm_up(self, windows: Sequence[ArchivedWindow]) -> tuple[ArchivedLesson, ...]:
        """The windows that a detector had seen before these: it has a memory of them."""
        return self.past.lessons(self.past.before(windows, WARM_UP))

    def _unseen(self) -> list[ArchivedWindow]:
        """The windows after the last rollback that the champion did not learn from."""
        data = read_lineage(self.registry, self.aliases.champion).data
        marks = {} if data is None else dict(data.until())
        for graph, end in (self.state.rolled_back or {}).items():
            marks[graph] = max(end, marks.get(graph, end))
        return self.past.after(marks)

    def _place(self, version: str) -> str:
        return existing_folder(self.registry, version).uri

    def _checkpoints(self) -> Store:
        return self.registry.below(f"retraining/{self.settings.name}.checkpoints")

    def _remember(self, **changes: Any) -> None:
        self.state = replace(self.state, **changes)
        self.state.write(self.registry, self.settings.name)

    def decision(
        self,
        outcome: _RoundOutcome,
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
            archive = Archive(open_store(self.settings.archive))
            nothing = archive.nothing_selected(Selection("snapshots", self.settings.graph))
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
