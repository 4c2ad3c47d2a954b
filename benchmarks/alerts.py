"""What a worker of alerts computes for a window: processor time, by the kind of rule.

    python -m benchmarks.alerts

Events are those of a tracker on a drifting LFR stream of 10,000 nodes, with the true communities.
Broker and receivers are left out.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from benchmarks.shared.streams.drifting import results
from stream_icd.core.events import CommunityEvents
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr
from stream_icd.methods.tracking.alerts import Alerting
from stream_icd.methods.tracking.rules import Rule
from stream_icd.methods.tracking.track import remember, track
from stream_icd.streaming.workers.alert import past_alerts
from stream_icd.wire.events import decode_events, encode_events
from stream_icd.wire.message import Message

N_WINDOWS, N_NODES = 40, 10_000
WATCHED = frozenset(map(str, range(1000)))
CASES = {
    "merged or split": 0,
    "merged or split, --confirmed 3": 3,
    "node in FILE (1,000 nodes) and moved": 0,
}


def messages() -> list[Message]:
    """The events of the windows, as a tracker publishes them."""
    planted = generate_drifting_lfr(1, N_WINDOWS, LfrSettings(N_NODES), event_rate=0.3)
    of_windows = zip(results(N_WINDOWS), planted, strict=True)
    recent: tuple[CommunityEvents, ...] = ()
    sent = []
    for result, (graph, _) in of_windows:
        found = graph.communities.astype(np.int32)
        nodes = pa.array(np.arange(len(found)))
        recent = remember(recent, track(recent, replace(result, nodes=nodes, labels=found)))
        sent.append(encode_events(recent[-1]))
    return sent


def milliseconds(rule: str, lasting: int, sent: Sequence[Message]) -> tuple[float, int]:
    """Processor time of a window, and the number of alerts of all."""
    told = Alerting([Rule.parse(rule, lambda _: WATCHED)], lasting)
    started = time.process_time()
    windows = (decode_events(message.key, message.value, message.headers) for message in sent)
    n_alerts = sum(len(alerts) for _, alerts in past_alerts(told, windows))
    return 1000 * (time.process_time() - started) / len(sent), n_alerts


def main() -> None:
    sent = messages()
    print("rule | ms a window | alerts\n--- | --- | ---")
    for case, lasting in CASES.items():
        rule = case.partition(",")[0] if lasting else case.replace("(1,000 nodes) ", "")
        took, n_alerts = milliseconds(rule, lasting, sent)
        print(f"{case} | {took:.0f} | {n_alerts}")


if __name__ == "__main__":
    main()
