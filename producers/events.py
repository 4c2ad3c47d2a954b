"""`stream-icd produce events`: mails, calls, payments: timed pairs, cut into windows."""

from typing import TYPE_CHECKING

import typer

from stream_icd import programs
from stream_icd.commands.programs.declared import command, option
from stream_icd.commands.programs.options import GraphName, ReadingProducer, RowOptions
from stream_icd.core.errors import BadSettings

if TYPE_CHECKING:
    from stream_icd.sources.timed_rows import Number

app = typer.Typer()


@command(app, "events")
class Events(RowOptions, ReadingProducer):
    """Send one graph per time window from timed pairs: mails, calls, payments.

    Windows are cut by event time, not by arrival time. A window is sent when an event arrives that
    is --lateness past its end; later events are counted and written to --late-rows. Run the
    command again to continue after the last window in the topic.

    Mails in windows of three days, from SNAP's file:

      stream-icd produce events CollegeMsg.txt.gz --columns src,dst,t --window 3d

    Payments as they happen: the last hour, every five minutes:

      stream-icd produce events --topic payments --hop 5m --lateness 30s
    """

    window: str = option("1h", "Window length, such as 1h or 3d.")
    hop: str | None = option(
        None,
        "Start a window at this interval, such as 5m (windows overlap). Default: at the end of "
        "the previous one.",
    )
    align: str = option("0s", "Shift the starts of windows from multiples of --hop since 1970 UTC.")
    session: str | None = option(
        None, "Session windows, instead of --window: a window ends after a gap of this length."
    )
    src: str | None = option(
        None,
        "Column of senders (or of one end of an edge). Default: src, or source beside target, or "
        "from beside to.",
    )
    dst: str | None = option(None, "Column of receivers (or of the other end).")
    weight: str | None = option(
        None,
        "Column to sum as edge weights, or count for the number of events. Default: no weights.",
    )
    least_nodes: int = option(2, "Skip (and count) windows with fewer nodes.", min=2)
    graph: GraphName = "events"

    def open(self, run: "programs.ProducerRun") -> "programs.Source":
        from urllib.parse import quote

        from stream_icd.commands.programs.windowed import windowed_source
        from stream_icd.core.snapshot import LEAST_WEIGHT, MOST_WEIGHT
        from stream_icd.core.times import parse_duration
        from stream_icd.sources.tables import end_columns
        from stream_icd.sources.timed_rows import EventSettings
        from stream_icd.sources.windows import Hopping, Session, WindowRule

        weights: dict[str, Number] = {}
        if self.weight is not None and self.weight != "count":
            weights["weight"] = (
                self.weight,
                lambda given: (given >= LEAST_WEIGHT) & (given <= MOST_WEIGHT),
            )
        if self.session is not None and (self.hop is not None or parse_duration(self.align)):
            raise BadSettings("--session has no windows to shift: leave out --hop and --align")
        size = parse_duration(self.window if self.session is None else self.session)
        if self.session is None:
            hop = size if self.hop is None else parse_duration(self.hop)
            rule: WindowRule = Hopping(size, hop, parse_duration(self.align))
        else:
            rule = Session(size)
        settings = EventSettings(
            graph=self.graph,
            rule=rule,
            lateness=parse_duration(self.lateness),
            counted=self.weight == "count",
            least_nodes=self.least_nodes,
            source="urn:stream_icd:events"
            + (f"?weight={quote(self.weight)}" if self.weight else ""),
        )
        usual = end_columns(self.file_columns) or ("src", "dst")
        ends = {"src": self.src or usual[0], "dst": self.dst or usual[1]}
        return windowed_source(self, settings, ends, weights, run, size + settings.lateness)
