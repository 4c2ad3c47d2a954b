"""The building blocks of producers and consumers, for programs in this and other packages.

Each name is imported when it is first used. The typer options that commands share are in
`stream_icd.programs.options`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stream_icd.imports import lazy_imports

if TYPE_CHECKING:
    from stream_icd.messages.claims import MessageReader
    from stream_icd.messages.records import Outcome, Processed, Refused
    from stream_icd.programs.declared import argument, command, option
    from stream_icd.programs.options import Producer, ReadingProducer, WorkerOptions
    from stream_icd.programs.producer import ProducerRun, run_producer
    from stream_icd.programs.worker import WorkerRun, run_worker
    from stream_icd.sources.source import Source
    from stream_icd.workers.step import BatchStep, Step

__all__ = [
    "BatchStep",
    "MessageReader",
    "Outcome",
    "Processed",
    "Producer",
    "ProducerRun",
    "ReadingProducer",
    "Refused",
    "Source",
    "Step",
    "WorkerOptions",
    "WorkerRun",
    "argument",
    "command",
    "option",
    "run_producer",
    "run_worker",
]

__getattr__, __dir__ = lazy_imports(
    __name__,
    {
        "stream_icd.messages.claims": ("MessageReader",),
        "stream_icd.messages.records": ("Outcome", "Processed", "Refused"),
        "stream_icd.programs.declared": ("argument", "command", "option"),
        "stream_icd.programs.options": ("Producer", "ReadingProducer", "WorkerOptions"),
        "stream_icd.programs.producer": ("ProducerRun", "run_producer"),
        "stream_icd.programs.worker": ("WorkerRun", "run_worker"),
        "stream_icd.sources.source": ("Source",),
        "stream_icd.workers.step": ("BatchStep", "Step"),
    },
)
