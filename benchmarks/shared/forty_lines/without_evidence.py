"""`stream-icd` without evidence and measures: what these cost. Its results say that there are none.

    python -m benchmarks.shared.forty_lines.without_evidence consume detect

Worker processes import this module too, so it also changes what they do.
"""

from types import SimpleNamespace

import numpy as np

from stream_icd.commands.cli.main import main
from stream_icd.methods.bp.evidence import Evidence
from stream_icd.methods.quality.partition import CommunityWeights
from stream_icd.streaming.detection import snapshot

NOTHING = CommunityWeights(np.zeros(0), np.zeros(0))

vars(snapshot).update(
    evidence_for=lambda *_: Evidence(0.0, "none"),
    CommunityWeights=SimpleNamespace(of=lambda *_: NOTHING),
)

if __name__ == "__main__":
    main()
