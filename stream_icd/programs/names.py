"""The table or topic of attributes that `--names` gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stream_icd.kafka.settings import KafkaSettings
    from stream_icd.names.names import Naming

TOPIC = Path("topic")
"""`--names topic`; a file of this name is given with its folder, as `/data/topic`."""


@contextmanager
def naming_by(
    names: Path | None, settings: Callable[[], KafkaSettings], graph: str | None = None
) -> Iterator[Naming | None]:
    """Give what names communities, by a table or by the topic; None without `--names`.

    Attributes of the topic are kept up to date during the block.

    Args:
        settings: connection to Kafka, called only for the topic.
        graph: attributes of this graph only; None: of all.

    Raises:
        As `read_attributes` for a table, and `following_attributes` for the topic.
    """
    if names is None:
        yield None
        return
    from stream_icd.names.names import Naming

    if names == TOPIC:
        from stream_icd.subscribers.attributes import following_attributes

        with following_attributes(settings(), graph) as attributes:
            yield Naming(attributes)
        return
    from stream_icd.sources.node_tables import read_attributes

    yield Naming(read_attributes(names))
