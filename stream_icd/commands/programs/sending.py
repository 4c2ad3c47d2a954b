"""Options of commands that send a table about nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stream_icd.commands.programs.declared import option, options
from stream_icd.commands.programs.options import BrokerOptions

if TYPE_CHECKING:
    from stream_icd.kafka.record import OutgoingRecord


@options
class SendOptions(BrokerOptions):
    """The options of commands that send a table, or only say what they would send."""

    dry_run: bool = option(False, "Send nothing; report what would be sent.")

    @contextmanager
    def sending(self) -> Iterator[Callable[[OutgoingRecord], object]]:
        """Give what sends a record; in a dry run, it does nothing."""
        from stream_icd.kafka.publisher import Publisher

        if self.dry_run:
            yield lambda _: None
            return
        with Publisher(self.kafka()) as publisher:
            yield publisher.send

    @property
    def done(self) -> str:
        """What the command says that it did."""
        return "would send" if self.dry_run else "sent"
