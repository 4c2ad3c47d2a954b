"""What a running consumer looks at now and then, besides its records."""

from __future__ import annotations

import contextlib
from functools import partial

from stream_icd.errors import BrokerUnavailable
from stream_icd.kafka.clock import Clock
from stream_icd.kafka.held_offsets import HeldOffsets
from stream_icd.kafka.membership import Membership
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import describe_topic

CHECK_EVERY_S = 30.0


class PeriodicChecks:
    """Sees that there is a topic, and in each of our partitions a place to read on."""

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
        self._held = held
        self._clock = clock
        self._topic_seen = clock.now()

    def look(self) -> None:
        """Look, if the last time is half a minute ago.

        Raises:
            TopicMissing: the topic is gone.
            OffsetHeld: the broker keeps the group's position back, longer than a transaction
                lasts.
        """
        if self._clock.now() - self._topic_seen > CHECK_EVERY_S:
            self.look_at_topic()
            self._look_at_positions()

    def look_at_topic(self) -> None:
        """See that the topic is there, if the broker answers.

        Raises:
            TopicMissing: it is not.
        """
        with contextlib.suppress(BrokerUnavailable):
            self._member.wait_for(partial(describe_topic, self._settings, self._topic))
        self._topic_seen = self._clock.now()

    def _look_at_positions(self) -> None:
        missing = self._member.without_position()
        if missing:
            self._member.wait_for(partial(self._held.unknown, missing))
        else:
            self._held.known(self._member.assignments.ours())
