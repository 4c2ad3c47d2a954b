"""Compile what detection uses into the cache: `python -m tests.testbed.compile_loops`."""


def warm_up_detection() -> None:
    """Load the loops of method bp, from the cache if they are there."""
    from stream_icd.registry.find import open_model
    from stream_icd.streaming.detection.record import Detection
    from stream_icd.streaming.detection.settings import DetectSettings

    Detection(open_model("default"), DetectSettings(memory="auto")).warm_up()


if __name__ == "__main__":
    from stream_icd.registry.find import open_model
    from stream_icd.streaming.detection.record import Detection
    from stream_icd.streaming.detection.settings import DetectSettings

    warm_up_detection()
    Detection(open_model("lfr"), DetectSettings(memory="auto", method="icd")).warm_up()
