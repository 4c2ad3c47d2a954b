"""Periodic checks of a running consumer."""

from __future__ import annotations

import contextlib
from functools import partial

from stream_icd.errors import BrokerUnavailable
from stream_icd.kafka.clock import Clock
from stream_icd.kafka.group.hanging import HeldOffsets
from stream_icd.kafka.group.membership import Membership
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import describe_topic

CHECK_EVERY_S = 30.0


class PeriodicChecks:
    """Checks that the topic exists, and that each of our partitions has a known position.

    Attributes:
        held: notes which positions are known.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        member: Membership,
        held: HeldOffsets,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._topic = topic
        self._member = member
        self.held = held
        self._clock = clock
        self._topic_seen = clock.now()

    def look(self) -> None:
        """Run the checks, if the last time was half a minute ago."""
        if self._clock.now() - self._topic_seen > CHECK_EVERY_S:
            self.look_at_topic()
            self._look_at_positions()

    def look_at_topic(self) -> None:
        """Raise TopicMissing if the broker answers and the topic does not exist."""
        with contextlib.suppress(BrokerUnavailable):
            self._member.wait_for(partial(describe_topic, self._settings, self._topic))
        self._topic_seen = self._clock.now()

    def _look_at_positions(self) -> None:
        missing = self._member.without_position()
        if missing:
            self._member.wait_for(partial(self.held.unknown, missing))
        else:
            self.held.known(self._member.assignments.ours())
