"""`stream-icd consume retrain`, also `stream-icd retrain`: keep the champion up to date."""

from typing import TYPE_CHECKING, Literal

import typer

from stream_icd.commands.programs.declared import command, option
from stream_icd.commands.programs.options import (
    ArchiveUri,
    BrokerOptions,
    RegistryUri,
    ServedOptions,
)
from stream_icd.core.errors import BadSettings
from stream_icd.core.printable import say

if TYPE_CHECKING:
    from stream_icd.learning.retraining.settings import Retraining

_GRACE_S = 60.0
"""A step is ended at its limit; it exceeds the limit by this only if ending it fails."""

_FAILED = 75
"""Exit status if learning failed: try again, as EX_TEMPFAIL of sysexits.h."""

app = typer.Typer(help="Learn a new model from the archive, and promote it if it is better.")


@command(app, "retrain")
class Retrain(ServedOptions, BrokerOptions):
    """Learn a new model from archived windows, and promote it if it is better.

    Each round asks the triggers whether to learn. What is learned is the encoder and the numbers of
    belief propagation, and by which of both the model detects better. A new model replaces the
    champion of the registry only if it predicts hidden edges better on windows that neither model
    learned from. If the windows after the swap show that it is worse, the previous model comes
    back.

      stream-icd retrain history/ --registry registry/ --once --every-windows 100

      stream-icd consume retrain s3://bucket/history --registry s3://bucket/models
    """

    archive: ArchiveUri
    registry: RegistryUri = None
    once: bool = option(False, "Make one round and end, for cron.")
    now: bool = option(False, "Learn now, whatever the triggers say. Only with --once.")
    every_windows: int | None = option(
        None, "Trigger: learn every so many windows. Default: off.", min=1
    )
    every: str | None = option(None, "Trigger: learn once in this time, such as 1d. Default: off.")
    drift: bool = option(
        True,
        "Trigger: learn when the score on hidden edges drifts, or the NMI of labels.",
        "--drift/--no-drift",
    )
    graph: str | None = option(None, "Learn from this graph only. Default: all graphs.")
    name: str = option("retrained", "Name of the models that are learned.")
    first: str = option(
        "default", "First champion of an empty registry: a shipped model, or a folder."
    )
    encoder: str = option(
        "edges",
        "Encoder to learn: edges, from labels or, without any, from what later windows show, in a "
        "minute or two; none; or the paper's, with its settings for a data set, such as "
        "'L(f,0.6)' or AS, which takes hours, and needs pip install 'stream-icd[train]'.",
    )
    method: Literal["auto", "bp", "icd"] = option(
        "auto", "Method to compare models by: that of your detectors. auto: each model's own."
    )
    memory: Literal["auto", "off"] = option(
        "auto",
        "Compare models with memory of earlier windows or without, as your detectors do.",
    )
    epochs: int | None = option(
        None, "Epochs of the paper's encoder. Default: the paper's 100.", min=1
    )
    samples: int | None = option(None, "Windows per epoch. Default: the paper's number.", min=1)
    newest: int = option(6, "Number of newest windows to learn from.", min=1)
    older: int = option(2, "Number of older windows to learn from, drawn at random.", min=0)
    prove: int = option(8, "Number of still newer windows to compare the models on.", min=4)
    watch: int = option(8, "Number of windows after a swap that confirm it or roll it back.", min=1)
    margin: float = option(
        0.005, "Promote only if the score on hidden edges rises by more than this fraction."
    )
    confidence: float = option(0.99, "Promote only if that holds with this probability.")
    most_windows: int = option(
        1000, "Number of archived windows to look at, the newest ones; at most 10,000.", min=5
    )
    budget_seconds: float = option(
        1800.0, "Processor time for each learning or comparison, in seconds."
    )
    budget_memory: int = option(4 << 30, "Memory for each learning or comparison, in bytes.")
    seed: int = option(0, "Seed of every random choice.", min=0)
    threads: int = option(1, "Cores to learn with.", min=1)
    check: str = option("1m", "Time between two rounds without --once, such as 1m.")
    announce: bool = option(
        True,
        "Announce decisions in the topic icd.models.v1. Detectors find a new champion without it, "
        "but later.",
        "--announce/--no-announce",
    )

    def settings(self) -> "Retraining":
        """Return the settings of the options.

        Raises:
            BadSettings: a value is out of range, or two exclude each other.
        """
        from stream_icd.core.times import parse_duration
        from stream_icd.learning.retraining.settings import Retraining, Rules, Sizes
        from stream_icd.methods.icd.presets import encoder_recipe
        from stream_icd.streaming.execution.budget import Allowance

        encoder = encoder_recipe(self.encoder)
        schedule = {name: n for name in ("epochs", "samples") if (n := getattr(self, name))}
        if schedule and not encoder.trains_encoder:
            raise BadSettings(
                f"--{next(iter(schedule))} applies to the training of the paper's encoder: give "
                "--encoder too, such as --encoder AS"
            )
        if self.now and not self.once:
            raise BadSettings("--now learns once: give --once too")
        if self.once and self.metrics_port is not None:
            raise BadSettings("--metrics-port is for rounds without --once: leave one of them out")
        return Retraining(
            archive=self.archive,
            name=self.name,
            first=self.first,
            graph=self.graph,
            every_windows=self.every_windows,
            every=None if self.every is None else parse_duration(self.every),
            drift=self.drift,
            sizes=Sizes(self.newest, self.older, self.prove, least=min(self.newest, Sizes().least)),
            rules=Rules(margin=self.margin, confidence=self.confidence),
            budget=Allowance(self.budget_seconds, self.budget_memory),
            most_windows=self.most_windows,
            watch=self.watch,
            encoder=encoder.changed(schedule=schedule),
            method=self.method,
            memory=self.memory,
            seed=self.seed,
            threads=self.threads,
        )

    def run(self) -> None:
        from contextlib import nullcontext

        from stream_icd.commands.programs.process import stop_on_signals
        from stream_icd.core.log import configure_logging
        from stream_icd.core.times import parse_wait
        from stream_icd.kafka.tracing import traces_of
        from stream_icd.learning.retraining.run import Rounds, announce_in_topic
        from stream_icd.registry.settings import registry_at, required
        from stream_icd.streaming.metrics.server import serving

        settings = self.settings()
        every_s = parse_wait("--check", self.check)
        opened = required(registry_at(self.registry))
        configure_logging()
        announce = []
        if self.announce:
            announce.append(announce_in_topic(self.kafka(check=False), opened, self.name))
        limit_s = max(settings.budget.clock_seconds, every_s) + _GRACE_S
        with traces_of("retrain") as tracing:
            rounds = Rounds(opened, settings, announce, limit_s, tracing)
            if not self.once:
                port, host = self.metrics_port, self.metrics_host
                with nullcontext() if port is None else serving(rounds.metrics, port, host):
                    rounds.until(stop_on_signals(), every_s)
                return
            decision = rounds.once(asked=self.now)
        say(f"{decision.outcome}: {decision.reason}")
        if decision.outcome == "failed":
            raise typer.Exit(_FAILED)
