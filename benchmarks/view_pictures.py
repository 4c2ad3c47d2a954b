"""The pictures of the live page in the documents.

    python -m benchmarks.view_pictures --data FOLDER

Sends a month of the Internet's autonomous systems, an hour of Beijing's taxis and drifting
simulated graphs to Apache Kafka on this machine, lets `stream-icd consume detect` find their
communities, opens `stream-icd view` in Chromium and writes docs/view_*.png. FOLDER holds
as733.parquet and tdrive_1h.parquet (docs/measured/data.md). Needs Debian's package chromium, and
pip install playwright.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from benchmarks.shared.page import chromium, page_of, produced
from stream_icd.kafka.settings import KafkaSettings
from testbed import brokers

DOCS = Path(__file__).parents[1] / "docs"
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
    Shot("flow", "?graph=as733", click="svg.flow .label >> nth=5"),
    Shot("map", "?graph=lfr&view=map&all=1", "dark"),
    Shot("taxi", "?graph=taxi&view=map"),
    Shot("life", "?graph=lfr&view=life", height=1060),
    Shot("events", "?graph=as733&view=events"),
    Shot("phone", "?graph=taxi&view=map", "dark", 390, 844),
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
    small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(DOCS / f"view_{shot.name}.png", optimize=True)


def streams(data: Path) -> list[tuple[str, ...]]:
    """The arguments of `stream-icd produce` for each graph."""
    taxis = ("taxi", str(data / "tdrive_1h.parquet"), "--zone", "Asia/Shanghai", "--tick", "5m")
    return [
        ("as", str(data / "as733.parquet"), "--graph", "as733", "--limit", "30"),
        (*taxis, "--stale", "10m"),
        ("lfr", "--limit", "60", "--mixing", "0.5"),
    ]


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
        produced(settings, Path(folder), streams(options.data))
        with page_of(settings, Path(folder)) as (address, _), chromium() as browser:
            for shot in shots:
                shoot(browser, address, shot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
