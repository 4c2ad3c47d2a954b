"""The pictures of the live page in the documents, and how soon it shows its first one.

    python -m benchmarks.view_pictures --history history/ --history taxis/

Serves archives that hold the graphs as733 (a month), lfr and taxi (an hour), opens the page in
Chromium (Debian's package chromium; and pip install playwright) and writes docs/view_*.png. Prints
the seconds from opening the page to its first picture.
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from stream_icd.store.store import open_store
from stream_icd.view.access import access_for
from stream_icd.view.all_series import AllSeries
from stream_icd.view.queries import Queries
from stream_icd.view.serve import serving
from stream_icd.view.server import View
from stream_icd.view.sources import archive_sources
from testbed.brokers import wait_until

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


SHOTS = (
    Shot("flow", "?graph=as733&community=6"),
    Shot("map", "?graph=lfr&view=map&all=1", "dark"),
    Shot("life", "?graph=lfr&view=life"),
    Shot("taxi", "?graph=taxi&view=map"),
    Shot("phone", "?graph=as733", "dark", 390, 844),
)


def shoot(browser: Any, address: str, shot: Shot) -> float:
    """Write a picture; return the seconds to the first one."""
    context = browser.new_context(
        viewport={"width": shot.width, "height": shot.height},
        color_scheme="dark" if shot.scheme == "dark" else "light",
    )
    page = context.new_page()
    began = time.monotonic()
    page.goto(f"{address}{shot.query}")
    page.wait_for_selector(PICTURE)
    seconds = time.monotonic() - began
    page.wait_for_timeout(SETTLED_MS)
    picture = Image.open(io.BytesIO(page.screenshot()))
    context.close()
    # A palette of the picture's own: a fourth of the bytes, and no difference that one sees.
    small = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(DOCS / f"view_{shot.name}.png", optimize=True)
    return seconds


def main() -> int:
    """Serve the archives, and write all pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--history", action="append", required=True)
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright  # only this program needs it

    seen = AllSeries()
    sources = archive_sources([open_store(uri) for uri in options.history], seen)
    view = View(Queries(seen, sources.snapshots, sources.troubles), access_for("127.0.0.1"))
    with serving(view) as address, sources.reading(view.publish), sync_playwright() as playwright:
        wait_until(lambda: not any(one.name == "view archives" for one in threading.enumerate()))
        browser = playwright.chromium.launch(
            executable_path=options.chromium, args=["--no-sandbox"]
        )
        for shot in SHOTS:
            print(f"{shot.name}: first picture after {shoot(browser, address, shot):.2f} s")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
