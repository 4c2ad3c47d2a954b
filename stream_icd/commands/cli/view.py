"""`stream-icd view`: a live page of what a stream's communities do."""

import typer

from stream_icd.commands.programs.declared import command, option
from stream_icd.commands.programs.naming import GraphNames, naming_by
from stream_icd.commands.programs.options import BrokerOptions, OnlyGraph, Zone, parse_time
from stream_icd.core.printable import say

app = typer.Typer()


@command(app, "view")
class _ViewPage(BrokerOptions):
    """Serve a page that shows communities as they change.

    Prints the address of the page. It shows the flow of communities, a map of the newest window,
    numbers over time, events, the past of any node, and two models side by side. Nothing is sent
    anywhere, and nothing can be changed.

      stream-icd view
      stream-icd view --history history/ --graph as733 --names countries.csv
      stream-icd view --names as733=countries.csv --names school=classes.csv
    """

    history: list[str] | None = option(
        None, "Show this archive instead of the topics: a folder or a URI. Several are compared."
    )
    graph: OnlyGraph = None
    first: str | None = option(
        None,
        "Read results from this time on, such as 2026-01-31. Of an archive: windows that begin "
        "then or later. Default: all that memory holds.",
        "--from",
    )
    host: str = option(
        "127.0.0.1", "Address of the page. Other machines need 0.0.0.0, and a token."
    )
    port: int = option(8321, "Port of the page.", min=0, max=65535)
    token: str | None = option(
        None, "Token that browsers must show. Default: none on 127.0.0.1, otherwise a new one."
    )
    no_token: bool = option(
        False, "Need no token at any address: for a container whose port only this machine reaches."
    )
    windows: int = option(6000, "Windows to keep in memory, of all graphs together.", min=2)
    memory: int = option(512, "Memory for these windows, in MiB; the oldest go first.", min=16)
    communities_topic: str = option("icd.communities.v1", "Topic of the results.")
    events_topic: str = option("icd.events.v1", "Topic of the events.")
    names: GraphNames = None
    zone: Zone = "UTC"

    def run(self) -> None:
        from urllib.parse import urlencode

        from stream_icd.core.errors import BrokerUnavailable
        from stream_icd.core.imports import needs_extra, without_pandas

        without_pandas()  # before Arrow converts anything: it imports pandas then

        from stream_icd.core.log import configure_logging
        from stream_icd.core.store.store import open_store
        from stream_icd.history.archive import Archive, Selection
        from stream_icd.interfaces.view.data.all_series import AllSeries, PageBudget
        from stream_icd.interfaces.view.feeds.archives import Archives
        from stream_icd.interfaces.view.feeds.live import Live, Topics
        from stream_icd.interfaces.view.feeds.sources import Sources
        from stream_icd.interfaces.view.panels.queries import Queries
        from stream_icd.kafka.connect import connect

        with needs_extra("view", "starlette", "sse_starlette", "uvicorn"):
            from stream_icd.interfaces.view.web.app import View
            from stream_icd.interfaces.view.web.serve import Access, PageServer

        configure_logging()
        since = parse_time("--from", self.first)
        access = Access.at(self.host, self.token, no_token=self.no_token)
        naming = naming_by(self.names, self.graph)
        sources: Sources
        seen = AllSeries(PageBudget(self.windows, self.memory * 2**20), naming)
        if self.history:
            stores = [open_store(uri) for uri in self.history]
            chosen = Selection("communities", self.graph, start=since)
            if naming is not None:
                days = (day for store in stores for day in Archive(store).partitions(chosen))
                naming.check_graphs({day.graph for day in days})
            sources = Archives.of(stores, seen, chosen)
        else:
            topics = Topics(self.communities_topic, self.events_topic)
            settings = self.kafka(check=False)
            try:
                with connect(settings).admin():
                    pass  # whoever refuses us is said now
            except BrokerUnavailable as error:
                say(f"{error}; the page waits for one", err=True)
            sources = Live(settings, topics, seen, self.graph, since)
        page = View(Queries(seen, sources, self.zone))
        server = PageServer(page, access, self.host, self.port)
        with sources.reading(page.publish):  # in the background: the page shows what there is
            shown = "" if access.token is None else f"?{urlencode({'token': access.token})}"
            say(f"open {server.address}{shown}   (Ctrl-C ends it)")
            server.serve_page()
