"""Compile what detection uses into the cache: `python -m testbed.compile_loops`."""

from stream_icd.detection.record import Detection
from stream_icd.detection.settings import DetectSettings
from stream_icd.registry.find import open_model

if __name__ == "__main__":
    Detection(open_model("default"), DetectSettings(memory="auto")).warm_up()
