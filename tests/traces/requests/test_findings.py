"""The replay of request logs finds each broken promise, and none in runs that keep the rules."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from highwater.model.language.interpreter import Interpreter
from highwater.traces.replay import replay
from highwater.traces.reports.report import Report
from tests.generation.model_runs import Step, Written, model, scripted, walked
from tests.slow import all_but
from tests.traces.requests.small import Small, report_of


def found(report: Report) -> set[tuple[str, str]]:
    return {(f.rule, f.property) for f in report.findings if "line" in f.position}


def run(directory: Path, rules_off: Sequence[str], steps: Sequence[Step], **parameters: Any) -> Report:
    Written(directory, scripted(model(rules_off, **parameters), steps))
    return replay(directory)


def fetched(leader: int, f: int) -> list[Step]:
    return [
        ("send_fetch", {"f": f}),
        ("answer_fetch", {"leader": leader, "f": f}),
        ("take_fetch_answer", {"f": f}),
    ]


def proposed(leader: int, kind: str, f: int) -> list[Step]:
    return [(kind, {"leader": leader, "f": f}), ("handle_alter_partition", {"b": leader})]


WRITE: list[Step] = [("write_acks_all", {"leader": 0})]


def test_an_acknowledgement_needs_min_isr_copies(tmp_path: Path) -> None:
    """B6: the leader, alone in the ISR, acknowledges a record that no other replica has."""
    steps: list[Step] = [*fetched(0, 1), *WRITE, ("acknowledge", {"leader": 0, "value": 0})]
    report = run(tmp_path, ["hwm_needs_min_isr", "acks_all_needs_min_isr"], steps, initial_isr=1)
    assert ("B6", "acknowledged_has_copies") in found(report)
    assert unexplained(report) == []


def unexplained(report: Report) -> list[tuple[str, tuple[str, ...]]]:
    """The actions in request logs that do not conform, each with the guards that refuse it."""
    lines = [u for u in report.unexplained if "line" in u.position]
    return [(c.action, c.refused_by) for u in lines for c in u.candidates]


def test_a_follower_joins_at_the_hwm(tmp_path: Path) -> None:
    """B5: broker 2 is proposed at offset 0 while the HWM is 1."""
    steps = [
        *fetched(0, 1), *WRITE, *fetched(0, 1), *fetched(0, 1), *fetched(0, 1), *fetched(0, 2),
        *proposed(0, "propose_expand", 2),
    ]  # fmt: skip
    report = run(tmp_path, ["join_at_hwm"], steps, initial_isr=2)
    assert found(report) == {("B5", "isr_joined_caught_up")}


def test_a_follower_joins_at_the_start_of_the_epoch(tmp_path: Path) -> None:
    """B5: broker 1 leads from offset 1 with HWM 0 and proposes broker 2, which is at offset 0."""
    steps: list[Step] = [
        *fetched(0, 1), *WRITE, *fetched(0, 1),
        ("fence_broker", {"b": 0}), ("replay_metadata", {"b": 1}), ("replay_metadata", {"b": 2}),
        ("replay_metadata", {"b": 0}), ("unfence_broker", {"b": 0}), ("replay_metadata", {"b": 0}),
        *fetched(1, 0),
        ("send_fetch", {"f": 2}), ("answer_fetch", {"leader": 1, "f": 2}),
        ("replay_metadata", {"b": 1}), *proposed(1, "propose_expand", 2),
    ]  # fmt: skip
    report = run(tmp_path, ["join_at_epoch_start"], steps, initial_isr=2, fencings=1)
    assert found(report) == {("B5", "isr_joined_caught_up")}


def test_a_leader_answers_in_its_own_epoch_only(tmp_path: Path) -> None:
    """B2: a leader of a later epoch answers a fetch of leader epoch 0."""
    steps: list[Step] = [
        *fetched(0, 1), ("send_fetch", {"f": 2}),
        ("fence_broker", {"b": 0}), ("unfence_broker", {"b": 0}), ("replay_metadata", {"b": 0}),
        ("replay_metadata", {"b": 1}), *fetched(0, 1),
        ("answer_fetch", {"leader": 0, "f": 2}),
    ]  # fmt: skip
    off = ["fetch_epoch_check"]
    report = run(tmp_path, off, steps, initial_isr=1, fencings=1)
    assert found(report) == {("B2", "leader_answers_in_its_epoch")}


def test_a_fetch_of_a_former_incarnation_is_not_used(tmp_path: Path) -> None:
    """903.2: the leader knows broker 2's new registration but answers its earlier fetch."""
    steps: list[Step] = [
        *fetched(0, 2), ("send_fetch", {"f": 2}), ("crash_broker", {"b": 2}), ("fence_broker", {"b": 2}),
        ("start_broker", {"b": 2}), ("replay_metadata", {"b": 0}),
        ("answer_fetch", {"leader": 0, "f": 2}),
    ]  # fmt: skip
    states = scripted(model(["stale_fetch_check"], initial_isr=2, crashes=1), steps)
    heard = _HeartbeatBefore(tmp_path, states, "answer_fetch", 0)
    assert heard.done == 2
    assert found(replay(tmp_path)) == {("903.2", "stale_epochs_are_refused")}


class _HeartbeatBefore(Written):
    """Writes a heartbeat of the leader before each step ``name``: it has replayed the metadata log."""

    def __init__(self, directory: Path, states: list, name: str, leader: int) -> None:  # type: ignore[type-arg]
        self._name, self._leader, self.done = name, leader, 0
        super().__init__(directory, states)

    def _step(self, step: Step, before: dict, after: dict) -> None:  # type: ignore[type-arg]
        if step[0] == self._name:
            epoch = self.epochs[(self._leader, before["brokers"][self._leader]["epoch"])]
            self.made.heartbeat(self._leader, epoch, self.made.metadata.offset - 1)
            self.made.now += 1000
            self.done += 1
        super()._step(step, before, after)


def test_a_member_joins_under_its_registered_epoch(tmp_path: Path) -> None:
    """903.4: the controller adds broker 2 to the ISR under its former broker epoch."""
    steps: list[Step] = [
        *fetched(0, 2), ("propose_expand", {"leader": 0, "f": 2}),
        ("crash_broker", {"b": 2}), ("fence_broker", {"b": 2}), ("start_broker", {"b": 2}),
        ("unfence_broker", {"b": 2}),
        ("handle_alter_partition", {"b": 0}),
    ]  # fmt: skip
    report = run(tmp_path, ["member_epoch_check"], steps, initial_isr=2, crashes=1)
    assert ("903.4", "stale_epochs_are_refused") in found(report)


def test_a_proposal_that_is_sent_again_keeps_its_epochs(tmp_path: Path) -> None:
    """903.3: a retried proposal names broker 2's new epoch instead of the original one."""

    def happens(small: Small) -> None:
        small.fetch(0, 0, f=2)
        small.alter(95, (0, 1, 2), wait=1000)
        small.made.now += 1000
        small.epochs[2] = small.made.register(2)
        small.fetch(0, 0, wait=1000, f=2)
        small.alter(95, (0, 1, 2), wait=1000)

    report = report_of(tmp_path, happens, whole=False, replicas=(0, 1, 2), isr=(0, 1))
    assert ("903.3", "proposals_name_fetched_epochs") in found(report)


@pytest.mark.parametrize("error", [95, 107])
def test_a_proposal_names_the_epochs_of_fetches(error: int, tmp_path: Path) -> None:
    """903.3: the proposal names broker 1 with an epoch that it did not fetch with."""

    def happens(small: Small) -> None:
        for _ in range(10):
            small.fetch(0, 0, wait=1000, f=2)
            small.fetch(0, 0, wait=0)
        small.epochs[1] += 1
        small.alter(error, (0, 1, 2))

    report = report_of(tmp_path, happens, min_isr=2, replicas=(0, 1, 2), isr=(0, 1))
    assert found(report) == {("903.3", "proposals_name_fetched_epochs")}


@pytest.mark.parametrize(("took", "is_found"), [(1000, True), (201, True), (200, False)])
def test_a_second_proposal_under_way_is_found(took: int, is_found: bool, tmp_path: Path) -> None:
    """B7, B8: the second AlterPartition arrives before the answer to the first.

    An overlap of up to 100 ms is allowed, because a line may be written late.
    """

    def happens(small: Small) -> None:
        for f in (1, 2):
            small.fetch(0, 0, wait=1000, f=f)
        small.alter(95, (0, 1, 2), wait=3000, took=1800)
        small.alter(95, (0, 1, 2), wait=100, took=took)

    report = report_of(tmp_path, happens, whole=False, replicas=(0, 1, 2), isr=(0, 1))
    assert (("B7, B8", "one_proposal_is_under_way") in found(report)) == is_found


@pytest.mark.parametrize(
    ("epoch", "told"),
    [(0, []), (7, ["send_fetch"])],
)
def test_a_fetch_in_flight_when_an_epoch_starts_is_checked_against_the_previous_epoch(
    epoch: int, told: list[str], tmp_path: Path
) -> None:
    """The leader answers a fetch of epoch 0 after a write in epoch 1."""

    def happens(small: Small) -> None:
        for at in range(3):
            small.fetch(at, 0, 70 * (at < 2))
        small.change(leader=0, isr=[0, 1])
        small.made.now += 10
        small.made.produce(0, 3, acks=1)
        small.epochs[1] += epoch
        small.fetch(2, 0, wait=0)
        small.epochs[1] -= epoch
        small.fetch(3, 0, wait=0)

    report = report_of(tmp_path, happens, whole=False, replicas=(0, 1, 2))
    assert [action for action, _ in unexplained(report)] == told


@pytest.mark.parametrize(
    ("error", "told"),
    [
        *(
            (error, "messages guessed: a broker had not replayed the creation of the partition")
            for error in (3, 100, 103)
        ),
        (56, "messages outside: fetch answered with error 56"),
        (101, "messages outside: fetch answered with error 101"),
    ],
)
def test_an_answer_with_an_error_outside_the_rules(error: int, told: str, tmp_path: Path) -> None:
    """A lagging broker returns UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID or INCONSISTENT_TOPIC_ID."""
    report = report_of(tmp_path, lambda small: small.fetch(0, -1, wait=1000, error=error), whole=False)
    assert (report.figures.get(told), unexplained(report)) == (1, [])


LIFE: dict[str, Any] = {
    "fencings": 1, "crashes": 1, "losses": 1, "shrinks": 2, "elections": 1, "controlled_shutdowns": 1
}  # fmt: skip


SEEDS = all_but([str(n) for n in range(4)], [str(n) for n in range(104)], "a hundred more runs of the model")


@cache
def all_rules() -> Interpreter:
    return model(rules_on=["proposal_outlives_known_metadata"], records=3, **LIFE)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_of_the_rules_is_explained(seed: str, tmp_path: Path) -> None:
    """A run under Kafka's rules and ``proposal_outlives_known_metadata`` (B7) conforms and breaks no promise."""
    Written(tmp_path, walked(all_rules(), int(seed), 80))
    report = replay(tmp_path)
    assert report.unexplained_count == 0, report.unexplained
    assert not found(report)
    assert report.figures["messages explained"] > 0
