"""The pictures of the live page in the documents.

    python -m benchmarks.view_pictures --data FOLDER

Sends half a year of the Internet's autonomous systems, a week of contacts in a school and an hour
of Beijing's taxis to Apache Kafka on this machine, with countries of systems and classes of pupils,
lets `stream-icd consume detect` find their communities, opens `stream-icd view` in Chromium and
writes docs/view_*.png. FOLDER holds as733.parquet, tdrive_1h.parquet and labelled/ with edges/ and
labels/ (docs/measured/data.md). Needs Debian's package chromium, and pip install playwright.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from PIL import Image

from benchmarks.shared.page import PATIENCE_S, chromium, page_of, produced
from stream_icd.kafka.settings import KafkaSettings
from tests.testbed import brokers
from tests.testbed.brokers import wait_until

DOCS = Path(__file__).parents[1] / "docs"
SCHOOL = "events_contacts_high_school_2012"
COLOURS = 128
PICTURE = "svg.flow, .plot canvas"
SETTLED_MS = 1500


@dataclass(frozen=True)
class Shot:
    """A picture: its name, what the address says, and how the browser is set."""

    name: str
    query: str
    scheme: str = "light"
    width: int = 1280
    height: int = 860
    click: str = ""


SHOTS = (
    Shot("flow", "?graph=as733&by=country", height=1180, click="svg.flow .label >> nth=3"),
    Shot("school", "?graph=school&by=class"),
    Shot("map", "?graph=as733&view=map&by=country", "dark"),
    Shot("taxi", "?graph=taxi&view=map"),
    Shot("life", "?graph=school&view=life", height=1060),
    Shot("events", "?graph=as733&view=events&span=6000"),
    Shot("phone", "?graph=as733&by=country", "dark", 390, 844),
)


def shoot(browser: Any, address: str, shot: Shot) -> None:
    """Write a picture."""
    context = browser.new_context(
        viewport={"width": shot.width, "height": shot.height},
        color_scheme="dark" if shot.scheme == "dark" else "light",
    )
    tab = context.new_page()
    tab.goto(f"{address}{shot.query}")
    tab.wait_for_selector("#event-table tr" if "events" in shot.query else PICTURE)
    tab.wait_for_timeout(SETTLED_MS)
    if shot.click:
        tab.locator(shot.click).click()
        tab.wait_for_timeout(SETTLED_MS)
    picture = Image.open(io.BytesIO(tab.screenshot()))
    context.close()
    # A palette of the picture's own: a fourth of the bytes, and no difference that one sees.
    small = picture.convert("RGB").quantize(
        COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
    )
    small.save(DOCS / f"view_{shot.name}.png", optimize=True)


def streams(data: Path, folder: Path) -> list[tuple[str, ...]]:
    """The arguments of `stream-icd produce` for each graph."""
    contacts = str(data / "labelled" / "edges" / f"{SCHOOL}.parquet")
    taxis = ("taxi", str(data / "tdrive_1h.parquet"), "--zone", "Asia/Shanghai", "--tick", "5m")
    late = ("--late-rows", str(folder / "late.jsonl"))
    school = ("events", contacts, "--window", "1h", "--graph", "school")
    return [
        ("as", str(data / "as733.parquet"), "--graph", "as733", "--limit", "180"),
        (*taxis, "--stale", "10m", *late),
        (*school, *late),
    ]


def tables(data: Path, folder: Path) -> Iterator[str]:
    """Write the countries of systems and the classes of pupils, and yield them as options."""
    for graph, file, attribute in (
        ("as733", "as733_countries", "country"),
        ("school", SCHOOL, "class"),
    ):
        labels = pq.read_table(data / "labelled" / "labels" / f"{file}.parquet")
        table = folder / f"{graph}.parquet"
        pq.write_table(labels.rename_columns({"label": attribute}), table)
        yield from ("--names", f"{graph}={table}")


def caught_up(address: str) -> bool:
    """Whether the page has read all that the topics hold, and knows that nothing waits."""
    with urllib.request.urlopen(f"{address}api/overview") as answer:
        said = json.load(answer)
    return bool(said["caught_up"]) and said["lag"] == 0


def main() -> int:
    """Make the streams, and write all pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", help="only this picture")
    options = parser.parse_args()
    shots = [shot for shot in SHOTS if options.only in (None, shot.name)]
    with brokers.OPENERS["kafka"]() as broker, tempfile.TemporaryDirectory() as folder:
        settings = KafkaSettings(bootstrap_servers=broker.bootstrap_servers)
        produced(settings, Path(folder), streams(options.data, Path(folder)))
        page = page_of(settings, Path(folder), *tables(options.data, Path(folder)))
        with page as (address, _), chromium() as browser:
            wait_until(lambda: caught_up(address), PATIENCE_S)
            for shot in shots:
                shoot(browser, address, shot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
