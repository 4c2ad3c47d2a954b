"""The files of the library that one snapshot passes, from a folder of edge lists to a subscriber.

    python -m benchmarks.files_on_the_way

Runs `produce files`, `consume detect` and `subscribe` with a profiler, also in their threads and
worker processes. A file counts if one of its functions ran; importing it is not enough. Compiled
functions and the embedded broker are not seen. Prints files and lines by room.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from stream_icd.kafka.embedded import embedded_broker
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import create_topics

ROOT = Path(__file__).parents[1]
ROOMS = ("stream_icd", "producers", "consumers")

PROFILER = '''\
"""Appends the file of each function that is called to FILES, once for each process."""
import inspect, os, sys, threading

seen = set()

def note(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename not in seen and code.co_flags & inspect.CO_OPTIMIZED:
        seen.add(code.co_filename)
        with open(os.environ["FILES"], "a") as file:
            file.write(f"{code.co_filename}\\n")

threading.setprofile(note)
sys.setprofile(note)
'''

EDGES = "src,dst\n" + "".join(
    f"{group}{a},{group}{b}\n" for group in "xy" for a in range(8) for b in range(a)
)


def passed_files(folder: Path) -> list[Path]:
    """Return the files of the library that a snapshot passes; paths from the repository's root."""
    graphs, profiler, files = folder / "graphs", folder / "profiler", folder / "files"
    graphs.mkdir()
    profiler.mkdir()
    (graphs / "2026-01-31.csv").write_text(EDGES)
    (profiler / "sitecustomize.py").write_text(PROFILER)  # Python imports it when it starts
    with embedded_broker() as broker:
        create_topics(KafkaSettings(bootstrap_servers=broker.bootstrap_servers))
        environment = {
            **os.environ,
            "PYTHONPATH": f"{profiler}:{ROOT}",
            "FILES": str(files),
            "STREAM_ICD_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        }
        command = (sys.executable, "-m", "stream_icd.commands.cli")
        send = (*command, "produce", "files", str(graphs))
        receive = (*command, "subscribe", "--from", "beginning", "--limit", "1")
        subprocess.run(send, env=environment, check=True)
        with subprocess.Popen((*command, "consume", "detect"), env=environment) as detector:
            subprocess.run(receive, env=environment, check=True)
            detector.send_signal(signal.SIGTERM)
    inside = (Path(name).resolve() for name in set(files.read_text().splitlines()))
    found = (path.relative_to(ROOT) for path in inside if path.is_relative_to(ROOT))
    return sorted(path for path in found if path.parts[0] in ROOMS)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = passed_files(Path(folder))
    lines = {path: len((ROOT / path).read_text().splitlines()) for path in found}
    files = Counter(path.parent for path in found)
    for room in sorted(files):
        number = sum(n for path, n in lines.items() if path.parent == room)
        print(f"{files[room]:>4} {number:>6}  {room}")
    print(f"{len(found):>4} {sum(lines.values()):>6}  in all")
    if "--list" in sys.argv:
        print(*found, sep="\n")


if __name__ == "__main__":
    main()
