"""The building blocks of producers and consumers: `from stream_icd import programs`.

Each name is imported when it is first used. The typer options that commands share are in
`stream_icd.commands.programs.options`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stream_icd.core.imports import lazy_imports

if TYPE_CHECKING:
    from stream_icd.commands.programs.declared import argument, command, option
    from stream_icd.commands.programs.options import Producer, ReadingProducer, WorkerOptions
    from stream_icd.commands.programs.producer import ProducerRun, run_producer
    from stream_icd.commands.programs.worker import WorkerRun, run_worker
    from stream_icd.kafka.consumer import run_consumer
    from stream_icd.kafka.messages.claims import MessageReader
    from stream_icd.kafka.messages.records import Outcome, Processed, Refused
    from stream_icd.sources.source import Source
    from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
    from stream_icd.streaming.workers.runner import Runner
    from stream_icd.streaming.workers.step import BatchStep, Step

__all__ = [
    "BatchStep",
    "DeadLetterLimit",
    "MessageReader",
    "Outcome",
    "Processed",
    "Producer",
    "ProducerRun",
    "ReadingProducer",
    "Refused",
    "Runner",
    "Source",
    "Step",
    "WorkerOptions",
    "WorkerRun",
    "argument",
    "command",
    "option",
    "run_consumer",
    "run_producer",
    "run_worker",
]

__getattr__, __dir__ = lazy_imports(
    __name__,
    {
        "stream_icd.kafka.consumer": ("run_consumer",),
        "stream_icd.streaming.dead_letters.letters": ("DeadLetterLimit",),
        "stream_icd.streaming.workers.runner": ("Runner",),
        "stream_icd.kafka.messages.claims": ("MessageReader",),
        "stream_icd.kafka.messages.records": ("Outcome", "Processed", "Refused"),
        "stream_icd.commands.programs.declared": ("argument", "command", "option"),
        "stream_icd.commands.programs.options": ("Producer", "ReadingProducer", "WorkerOptions"),
        "stream_icd.commands.programs.producer": ("ProducerRun", "run_producer"),
        "stream_icd.commands.programs.worker": ("WorkerRun", "run_worker"),
        "stream_icd.sources.source": ("Source",),
        "stream_icd.streaming.workers.step": ("BatchStep", "Step"),
    },
)
