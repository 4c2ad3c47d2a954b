"""`stream-icd view`: a live page of what a stream's communities do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from stream_icd.printable import say
from stream_icd.programs.declared import command
from stream_icd.programs.options import BootstrapServers, NamesFile, OnlyGraph, kafka_settings
from stream_icd.programs.past import parse_time

if TYPE_CHECKING:
    from stream_icd.kafka.settings import KafkaSettings

app = typer.Typer()


@command(app, "view")
class ViewPage:
    """Serve a page that shows communities as they change.

    Prints the address of the page. It shows the flow of communities, a map of the newest window,
    numbers over time, events, the past of any node, and two models side by side. Nothing is sent
    anywhere, and nothing can be changed.

      stream-icd view

      stream-icd view --history history/ --graph as733 --names countries.csv
    """

    history: Annotated[
        list[str] | None,
        typer.Option(
            help="Show this archive instead of the topics: a folder or a URI. Give several to "
            "compare them."
        ),
    ] = None
    graph: OnlyGraph = None
    first: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Read results from this time on, such as 2026-01-31. Of an archive: windows that "
            "begin then or later. Default: all that memory holds.",
        ),
    ] = None
    host: Annotated[
        str,
        typer.Option(
            help="Address to serve the page on. Other machines need 0.0.0.0, and a token."
        ),
    ] = "127.0.0.1"
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page.")] = 8321
    token: Annotated[
        str | None,
        typer.Option(
            help="Token that browsers must show. Default: none on 127.0.0.1, otherwise a new one."
        ),
    ] = None
    no_token: Annotated[
        bool,
        typer.Option(
            "--no-token",
            help="Ask for no token, whatever the address: for a container whose port only this "
            "machine reaches.",
        ),
    ] = False
    windows: Annotated[
        int, typer.Option(min=2, help="Windows to keep in memory, of all graphs together.")
    ] = 6000
    memory: Annotated[
        int, typer.Option(min=16, help="Memory for these windows, in MiB; the oldest go first.")
    ] = 512
    communities_topic: Annotated[str, typer.Option(help="Topic of the results.")] = (
        "icd.communities.v1"
    )
    events_topic: Annotated[str, typer.Option(help="Topic of the events.")] = "icd.events.v1"
    names: NamesFile = None
    bootstrap_servers: BootstrapServers = None

    def run(self) -> None:
        from stream_icd.extras import needs_extra
        from stream_icd.log import configure_logging
        from stream_icd.programs.names import naming_by
        from stream_icd.store.store import open_store
        from stream_icd.view.data.all_series import AllSeries, Budget
        from stream_icd.view.feeds.archives import archive_sources
        from stream_icd.view.feeds.live import Topics, topic_sources
        from stream_icd.view.panels.queries import Queries

        with needs_extra("view", "starlette", "sse_starlette", "uvicorn"):
            from stream_icd.view.web.access import access_for
            from stream_icd.view.web.app import View
            from stream_icd.view.web.serve import address, listening, server_of

        configure_logging()
        since = parse_time("--from", self.first)
        access = access_for(self.host, self.token, no_token=self.no_token)

        def kafka() -> KafkaSettings:
            return kafka_settings(self.bootstrap_servers)

        with naming_by(self.names, kafka, self.graph) as naming:
            seen = AllSeries(Budget(self.windows, self.memory * 2**20), naming)
            if self.history:
                stores = [open_store(uri) for uri in self.history]
                sources = archive_sources(stores, seen, self.graph, since)
            else:
                topics = Topics(self.communities_topic, self.events_topic)
                sources = topic_sources(kafka(), topics, seen, self.graph, since)
            page = View(Queries(seen, sources), access)
            server = server_of(page)
            with listening(self.host, self.port) as socket, sources.reading(page.publish):
                shown = "" if access.token is None else f"?token={access.token}"
                say(f"open {address(socket)}{shown}   (Ctrl-C ends it)")
                server.run(sockets=[socket])
