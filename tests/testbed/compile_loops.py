"""Compile what detection uses into the cache: `python -m tests.testbed.compile_loops`."""

from stream_icd.registry.find import open_model
from stream_icd.streaming.detection.record import Detection
from stream_icd.streaming.detection.settings import DetectSettings

if __name__ == "__main__":
    Detection(open_model("default"), DetectSettings(memory="auto")).warm_up()
    Detection(open_model("lfr"), DetectSettings(memory="auto", method="icd")).warm_up()
