"""A random change of the recorded raft logs is reported, unless it keeps the meaning or cannot show."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pytest

from highwater.traces.messages import raft_events as e
from highwater.traces.messages.raft_lines import RaftLog
from highwater.traces.messages.raft_replay import replay_raft
from highwater.traces.reading import TraceError
from tests.slow import often, slow
from tests.traces.raft.changes import NODES, RECORDED, Change, change, recorded, write

pytestmark = pytest.mark.skipif(
    not RECORDED.is_dir(), reason="shared/traces/kafka-4.2/clusters/raft3-elr is not beside the repository"
)
CHANGES = 500
SAME, UNSEEN, REPORTED = "says the same", "not seen", "reported"

OWN_CLIENT = re.compile(
    r"Received inbound message InboundResponse\(.*ResponseData\((throttleTimeMs=0, )?errorCode=8,"
)
OTHER = re.compile(r"(DescribeQuorum|UpdateRaftVoter|EndQuorumEpoch)(Request|Response)Data")
"""Lines whose changes cannot show.

OWN_CLIENT: an answer that the client made itself says only that a request was lost. OTHER: the model only
counts these messages. Two swapped lines also do not show if neither affects the other.
"""


def said(file: Path) -> list[e.What]:
    return [event.what for event in RaftLog(file)]


def outcome(seed: int, place: Path) -> tuple[str, Change]:
    """Make the change of a seed; returns its outcome and the change. SAME: the reader returns the same events."""
    logs = recorded()
    files = write(place, logs)
    number = {node: at for at, node in enumerate(NODES)}
    before = {node: said(file) for node, file in zip(NODES, files, strict=True)}
    made = change(random.Random(seed), logs)
    write(place, logs)
    try:
        if said(files[number[made.node]]) == before[made.node]:
            return SAME, made
        report = replay_raft(files)
    except TraceError:
        return REPORTED, made
    findings = {"answers_bring_news": 2}
    return (REPORTED if report.unexplained_count or report.findings_count != findings else UNSEEN), made


@slow("hundreds of replays of the recording; test_changed_fields.py has changes of its beginning")
def test_95_percent_of_changes_with_another_meaning_are_reported(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    for seed in range(0, CHANGES, often(15, 1)):
        found, made = outcome(seed, tmp_path)
        counts[found] += 1
        if found == UNSEEN:
            reason = OWN_CLIENT.search(made.text) or OTHER.search(made.text)
            assert made.kind == "order" or reason, (seed, made)
    assert counts[REPORTED] >= 0.95 * (counts[REPORTED] + counts[UNSEEN]), counts
