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
    from stream_icd.workers.runner import BatchStep, Step

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

_MODULES = {
    "BatchStep": "stream_icd.workers.runner",
    "MessageReader": "stream_icd.messages.claims",
    "Outcome": "stream_icd.messages.records",
    "Processed": "stream_icd.messages.records",
    "Producer": "stream_icd.programs.options",
    "ProducerRun": "stream_icd.programs.producer",
    "ReadingProducer": "stream_icd.programs.options",
    "Refused": "stream_icd.messages.records",
    "Source": "stream_icd.sources.source",
    "Step": "stream_icd.workers.runner",
    "WorkerOptions": "stream_icd.programs.options",
    "WorkerRun": "stream_icd.programs.worker",
    "argument": "stream_icd.programs.declared",
    "command": "stream_icd.programs.declared",
    "option": "stream_icd.programs.declared",
    "run_producer": "stream_icd.programs.producer",
    "run_worker": "stream_icd.programs.worker",
}

__getattr__ = lazy_imports(__name__, _MODULES)
