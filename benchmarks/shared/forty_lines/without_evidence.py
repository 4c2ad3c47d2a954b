"""`stream-icd` without evidence and measures: what these cost. Its results say that there are none.

    python -m benchmarks.shared.forty_lines.without_evidence consume detect

Worker processes import this module too, so it also changes what they do.
"""

import numpy as np

from stream_icd.bp.evidence import Evidence
from stream_icd.cli.main import main
from stream_icd.detection import snapshot
from stream_icd.quality.partition import CommunityWeights

NOTHING = CommunityWeights(np.zeros(0), np.zeros(0))

vars(snapshot).update(
    evidence_for=lambda *_: Evidence(0.0, "none"), community_weights=lambda *_: NOTHING
)

if __name__ == "__main__":
    main()
