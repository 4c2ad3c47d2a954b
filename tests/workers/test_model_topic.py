"""Messages in the topic of models make a detector look; a missing topic does not stop it."""

from __future__ import annotations

import threading

import pytest
from structlog.testing import capture_logs

from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.topics import create_topics
from stream_icd.programs import model_at_work
from stream_icd.programs.model_at_work import nudge_on_messages
from testbed.brokers import Broker, wait_until


@pytest.mark.brokers("memory", "embedded")
def test_a_topic_that_is_missing_is_logged_once_and_noticed_when_it_is_there(
    broker: Broker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_at_work, "TRY_AGAIN_S", 0.05)
    monkeypatch.setattr(model_at_work, "MODELS", topic_name)
    nudged, stop, settings = threading.Event(), threading.Event(), broker.settings()
    with capture_logs() as logs:
        thread = threading.Thread(target=lambda: nudge_on_messages(settings, nudged, stop))
        thread.start()
        wait_until(lambda: logs)
        create_topics(settings, [TopicSpec(topic_name)])

        def sent() -> bool:
            with Publisher(settings) as publisher:
                publisher.send(OutgoingRecord(topic_name, b"?", b"registry"))
            return nudged.wait(0.2)

        wait_until(sent)
        stop.set()
        thread.join(30)
    assert not thread.is_alive()
    assert [log["reason"].partition(":")[0] for log in logs] == ["TopicMissing"]
