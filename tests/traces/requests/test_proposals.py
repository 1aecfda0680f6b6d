"""Each AlterPartition answer is compared with the model controller's, given the same metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from highwater.traces.messages.request_lines import NO_EPOCH
from highwater.traces.replay import replay
from highwater.traces.reports.report import Report
from tests.generation.requests import TOPIC_ID, RequestLogs

Record = tuple[str, Mapping[str, Any]]
INELIGIBLE, STALE, INVALID, FENCED, OLD, BEHIND, OTHER_LEADER = 107, 77, 42, 74, 95, 41, 108


def changed(**fields: Any) -> Record:
    return ("PARTITION_CHANGE_RECORD", {"partitionId": 0, "topicId": TOPIC_ID, **fields})


def answered(
    directory: Path,
    answer: tuple[int, int, Sequence[int], int] | int,
    records: Sequence[Record] = (),
    members: Sequence[int] = (0, 1, 2),
    epochs: Mapping[int, int] | None = None,
    partition_epoch: int = 0,
    leader_epoch: int = 0,
    sender_off: int = 0,
    recovering: bool = False,
    again: int | None = None,
) -> Report:
    """The replay of a proposal by leader 0 after ``records``. If given, broker ``again`` re-registers 1 s later.

    Brokers 0 to 3 are replicas; 0 and 1 are in the ISR.
    """
    with RequestLogs(directory) as made:
        known = dict(made.begin([0, 1, 2, 3], [0, 1, 2, 3], [0, 1], 2))
        for record in records:
            made.now += 1000
            made.records((record[0], _named(record[1], known)))
        made.now += 1000
        named = [(m, (epochs or {}).get(m, known.get(m, 5))) for m in members]
        made.alter(
            0, known[0] + sender_off, leader_epoch, partition_epoch, named, answer, recovering=recovering
        )
        if again is not None:
            made.now += 1000
            made.register(again)
    return replay(directory)


def _named(data: Mapping[str, Any], epochs: Mapping[int, int]) -> dict[str, Any]:
    """Replace the placeholder ``"epoch"`` by the broker's epoch."""
    return {k: epochs[data["brokerId"]] if v == "epoch" else v for k, v in data.items()}


def of_broker(broker: int, **fields: int) -> Record:
    return ("BROKER_REGISTRATION_CHANGE_RECORD", {"brokerId": broker, "brokerEpoch": "epoch", **fields})


def told(report: Report) -> list[str]:
    """The rules of findings in the request log, and the model's answer for each nonconforming line."""
    found = [f.rule for f in report.findings if "line" in f.position]
    for line in (u for u in report.unexplained if "line" in u.position):
        found += [str(c.differences["answer"][0][0]) for c in line.candidates if "answer" in c.differences]
    return found


JOINED = (0, 0, [0, 1, 2], 1)
FENCED_2, STOPPING_2 = of_broker(2, fenced=1), of_broker(2, inControlledShutdown=1)
GONE_2 = ("UNREGISTER_BROKER_RECORD", {"brokerId": 2, "brokerEpoch": "epoch"})
MOVED = changed(replicas=[0, 2, 1, 3], addingReplicas=[2], removingReplicas=[1, 3])
AWAY = changed(replicas=[1, 2, 0, 3], addingReplicas=[2], removingReplicas=[0, 3])
LED_AGAIN = changed(isr=[0, 1], leader=0)
RECOVERING: dict[str, Any] = {
    "records": [changed(isr=[0], leader=0, leaderRecoveryState=1)], "partition_epoch": 1, "leader_epoch": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "right", "wrong", "expected"),
    [
        ({}, JOINED, INELIGIBLE, "NONE"),
        ({}, None, (1, 0, [0, 1, 2], 1), "NONE"),
        ({}, None, (0, 1, [0, 1, 2], 1), "NONE"),
        ({}, None, (0, 0, [0, 1], 1), "NONE"),
        ({}, None, (0, 0, [0, 1, 2], 2), "NONE"),
        ({}, None, (1, 1, [1, 2], 1), "NONE"),
        ({"members": (0, 1)}, (0, 0, [0, 1], 0), None, ""),
        ({"records": [FENCED_2]}, INELIGIBLE, JOINED, "INELIGIBLE_REPLICA"),
        ({"records": [FENCED_2], "again": 2}, None, JOINED, "INELIGIBLE_REPLICA"),
        ({"records": [STOPPING_2]}, INELIGIBLE, JOINED, "INELIGIBLE_REPLICA"),
        ({"records": [GONE_2]}, INELIGIBLE, JOINED, "INELIGIBLE_REPLICA"),
        ({"members": (0, 1, 7)}, INVALID, (0, 0, [0, 1, 7], 1), "INVALID_REQUEST"),
        ({"epochs": {2: NO_EPOCH}}, JOINED, None, ""),
        ({"epochs": {2: NO_EPOCH}, "records": [FENCED_2]}, None, JOINED, "INELIGIBLE_REPLICA"),
        ({"sender_off": -1}, STALE, JOINED, "903.4"),
        ({"again": 0}, None, STALE, "NONE"),
        ({"partition_epoch": 3}, BEHIND, JOINED, "NOT_CONTROLLER"),
        ({"leader_epoch": 1}, BEHIND, JOINED, "NOT_CONTROLLER"),
        ({"records": [changed(isr=[0])]}, OLD, JOINED, "no such partition then"),
        ({"records": [LED_AGAIN], "partition_epoch": 1}, FENCED, (0, 0, [0, 1, 2], 2), "FENCED_LEADER_EPOCH"),
        (
            {"records": [MOVED], "members": (0, 2), "partition_epoch": 1},
            (0, 1, [0, 2], 2), (0, 0, [0, 2], 2), "NONE",
        ),
        ({"records": [AWAY], "partition_epoch": 1}, OTHER_LEADER, (0, 0, [0, 1, 2], 2), "NEW_LEADER_ELECTED"),
        ({"recovering": True}, INVALID, None, ""),
        ({**RECOVERING, "recovering": True}, INVALID, None, ""),
        ({**RECOVERING, "members": (0,)}, (0, 1, [0], 2), None, ""),
        ({**RECOVERING, "members": (0,), "recovering": True}, (0, 1, [0], 1), None, ""),
    ],
)  # fmt: skip
def test_the_answer_is_the_models(
    more: dict[str, Any], right: Any, wrong: Any, expected: str, tmp_path: Path
) -> None:
    """``right`` conforms; ``wrong`` does not, and the report names the model's answer or the broken rule."""
    if right is not None:
        assert told(answered(tmp_path / "right", right, **more)) == []
    if wrong is not None:
        assert told(answered(tmp_path / "wrong", wrong, **more)) == [expected]
