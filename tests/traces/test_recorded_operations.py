"""Recordings of real controllers conform; changing one field or one rule breaks conformance."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from highwater.checker.cli import cli
from highwater.model.replication.controller.rules import ELR_FEATURE, PROFILES, RULES
from highwater.traces.operations.decide import NEWER, NotKnown
from highwater.traces.operations.read_recording import OPERATIONS, read_controller_trace
from highwater.traces.operations.replay import ControllerReplay, rules_in_force
from highwater.traces.reading import TraceError
from highwater.traces.replay import replay
from highwater.traces.reports.findings import Unexplained
from tests import recordings
from tests.slow import slow
from tests.traces.recorded import (
    another,
    fields_of,
    get,
    is_outside,
    lines_of,
    made,
    name_of,
    needs_recordings,
    put,
    write,
)


class Mode(NamedTuple):
    """Recordings of one controller configuration."""

    version: str
    name: str
    size: int
    profile: str

    def files(self) -> list[Path]:
        return sorted((FOLDERS[self.version] / self.name).glob("*.ndjson.gz"))


FOLDERS = {
    "trunk": recordings.folder("traces/kafka/controller"),
    "4.2": recordings.folder("traces/kafka-4.2/controller"),
}
MODES = (
    Mode("trunk", "elr-on", 100, "kafka_trunk_2024_10"),
    Mode("trunk", "elr-on-cleanaware", 40, "kafka_trunk_2024_10"),
    Mode("trunk", "elr-off", 60, "kafka_trunk_2024_10_elr_off"),
    Mode("trunk", "elr-off-prod", 40, "before_kip_966"),
    Mode("4.2", "elr-on", 60, "kafka_4_2"),
    Mode("4.2", "elr-on-extras", 40, "kafka_4_2"),
    Mode("4.2", "elr-off", 30, "kafka_4_2_elr_off"),
)
TRUNK, NEW = MODES[:4], MODES[4:]
needs_recordings_4_2 = recordings.needs("traces/kafka-4.2/controller")
MARKS = {"trunk": needs_recordings, "4.2": needs_recordings_4_2}
each_mode = pytest.mark.parametrize(
    "mode",
    [pytest.param(mode, id=f"{mode.version} {mode.name}", marks=MARKS[mode.version]) for mode in MODES],
)
each_share = pytest.mark.parametrize(
    "every", [20, pytest.param(1, marks=slow("all 370 recordings; the fast test has one in twenty"))]
)


def of(version: str, name: str) -> Mode:
    return next(mode for mode in MODES if mode[:2] == (version, name))


def nonconforming(path: Path, rules: Mapping[str, bool] | None = None) -> Iterator[Unexplained]:
    """The operations of a recording that do not conform, without the properties that they violate."""
    meta, operations = read_controller_trace(path)
    controller = ControllerReplay(meta, rules_in_force(meta, rules=rules).rules)
    return (wrong for wrong in map(controller.take, operations) if wrong is not None)


def is_reported(path: Path) -> bool:
    try:
        return any(nonconforming(path))
    except (TraceError, NotKnown):
        return True


@each_share
@each_mode
def test_every_recorded_operation_is_explained(mode: Mode, every: int) -> None:
    assert len(mode.files()) == mode.size
    operations, paths = 0, mode.files()[::every]
    for path in paths:
        report = replay(path)
        assert not report.unexplained, (path.name, str(report))
        assert report.profile == mode.profile
        if mode in NEW:
            assert (report.doubts, report.skipped) == ([], {})
        operations += report.operations
    assert operations > 100 * len(paths)


# --- changed fields -------------------------------------------------------------------------------------

SETS = (
    "isr", "partitions", "brokers", "records", "results", "newIsr", "renewed", "elrIndexExtra", "onlineDirs",
)  # fmt: skip
"""Lists whose order has no meaning: ISRs, and sets of partitions, brokers, records or directories."""


def only_order_changed(name: str, old: Any, new: Any) -> bool:
    last = name.rsplit(".", 1)[-1].removesuffix("[]")
    if last not in SETS or not isinstance(old, list) or not isinstance(new, list):
        return False
    return sorted(map(json.dumps, old)) == sorted(map(json.dumps, new))


def is_argument(name: str) -> bool:
    """True for a field that is an input of the decision: an argument, the clock, or a setting.

    A larger broker count changes no decision. A broker's directories appear only in the state after the
    operation.
    """
    return name.startswith(("op.", "brokers[].onlineDirs")) or name in (
        "timeMs", "meta.sessionTimeoutMs", "meta.staticMinIsr", "meta.controllerId", "meta.brokers",
    )  # fmt: skip


def replay_changed(path: Path, lines: list[dict[str, Any]], rng: random.Random) -> tuple[str, str]:
    """Change one random field; returns the outcome of the replay and the field's name."""
    changed = copy.deepcopy(lines)
    line = rng.randrange(len(changed))
    field = rng.choice(list(fields_of(changed[line])))
    name, old = name_of(field), get(changed[line], field)
    new = another(rng, old)
    if new == old:
        return "the same value", name
    put(changed[line], field, new)
    if is_reported(write(path, changed)):
        return "reported", name
    if is_outside(name):
        return "outside the model", name
    if only_order_changed(name, old, new):
        return "order of a set", name
    # The replay ran the rules with the changed argument, and the decision is the same.
    return ("same decision" if is_argument(name) else "UNNOTICED"), name


def results_of_changes(
    path: Path, recordings: list[list[dict[str, Any]]], count: int, seed: int
) -> Counter[str]:
    rng, found = random.Random(seed), Counter[str]()
    unnoticed: Counter[str] = Counter()
    while found.total() - found["the same value"] < count:
        what, name = replay_changed(path, rng.choice(recordings), rng)
        found[what] += 1
        if what == "UNNOTICED":
            unnoticed[name] += 1
    assert not unnoticed
    return found


def sample(modes: tuple[Mode, ...], count: int, seed: int) -> list[Path]:
    return random.Random(seed).sample([path for mode in modes for path in mode.files()], count)


@pytest.mark.parametrize(
    "modes",
    [
        pytest.param(TRUNK, id="trunk", marks=needs_recordings),
        pytest.param(NEW, id="4.2", marks=needs_recordings_4_2),
    ],
)
@pytest.mark.parametrize(
    ("lines", "tried"),
    [
        (60, 30),
        pytest.param(
            None, 600, marks=slow("changes anywhere in a recording; the fast test changes its beginning")
        ),
    ],
)
def test_a_change_of_one_field_shows(
    tmp_path: Path, modes: tuple[Mode, ...], lines: int | None, tried: int
) -> None:
    of_recordings = [lines_of(path)[:lines] for path in sample(modes, 8 if lines else 120, 1)]
    found = results_of_changes(tmp_path / "changed.ndjson", of_recordings, tried, seed=1)
    assert found["reported"] > 0.55 * tried


def test_a_change_of_one_field_shows_in_a_made_recording(tmp_path: Path) -> None:
    found = results_of_changes(tmp_path / "changed.ndjson", [made().lines], 60, seed=3)
    assert found["reported"] > 36


OTHERS: dict[str, list[Any]] = {
    "createTopic: configs": [{"min.insync.replicas": "1"}, {"min.insync.replicas": "3"}],
    "electLeaders: type": ["PREFERRED", "UNCLEAN"],
    "incrementalAlterConfigs: key": ["min.insync.replicas", "unclean.leader.election.enable"],
    "incrementalAlterConfigs: resource": ["t0", "t1"],
    "incrementalAlterConfigs: resourceType": ["TOPIC", "BROKER"],
    "incrementalAlterConfigs: value": ["1", "2", "3", "true", "false"],
}
"""Other valid values of arguments that allow only a few."""


@needs_recordings
def test_no_argument_is_ignored(tmp_path: Path) -> None:
    """Changing any argument breaks conformance in some recording, except those only the recorder uses."""
    wanted = {
        f"{op}: {arg}"
        for op, arguments in OPERATIONS.items()
        for arg in arguments
        if arg != "kind" and op not in NEWER
    }
    rng = random.Random(5)
    for path in sample(TRUNK, 40, 6):
        lines = lines_of(path)
        meta, operations = read_controller_trace(path)
        controller = ControllerReplay(meta, rules_in_force(meta).rules)
        for at, (line, op) in enumerate(zip(lines[1:], operations, strict=True), start=1):
            before = controller.state
            for argument, old in line["op"].items():
                key = f"{op.name}: {argument}"
                if key not in wanted or rng.random() < 0.8:
                    continue
                new = rng.choice(OTHERS[key]) if key in OTHERS else another(rng, old)
                changed = copy.deepcopy(lines[: at + 1])
                changed[at]["op"][argument] = new
                controller.state = before
                try:
                    *_, last = read_controller_trace(write(tmp_path / "changed.ndjson", changed))[1]
                    shows = controller.take(last) is not None
                except TraceError:
                    # A TraceError counts only for a value of OTHERS, which has the right type.
                    shows = key in OTHERS
                except NotKnown:
                    shows = True
                if shows:
                    wanted.discard(key)
            controller.state = before
            controller.take(op)
        if not wanted:
            break
    assert not wanted


# --- every rule matters ---------------------------------------------------------------------------------

_NO_LEVEL_CHANGES = (
    "ELR is on or off in a whole recording; recordings of 4.2, where its level changes, depend on the rule"
)
_ALLOWS_MORE = "not in Kafka: any candidate may be elected, also the first, as in the recording"
NOT_RECORDED = {
    "trunk": {
        "clean_election_picks_any": _ALLOWS_MORE,
        "unclean_election_picks_any": _ALLOWS_MORE,
        "balanced_election_waits_for_elr": "not in Kafka: it has no LONGEST_LOG elections",
        "elr_off_empties_elr": _NO_LEVEL_CHANGES,
        "elr_off_forgets_last_known": _NO_LEVEL_CHANGES,
    },
    "4.2": {
        "last_known_leader_first": "no unclean election could take another broker than the last known leader",
        "registration_may_be_split": "the recorded controller does not fail between the records of one decision",
        "min_isr_by_first_partition": "the recordings' own field effectiveMinIsr is the controller's min ISR",
    },
}
"""Rules that no recorded decision depends on, each with the reason."""
FIRST = {
    "trunk": {
        "elr_follows_election": ("elr-on", 48), "elr_within_replicas": ("elr-on", 1),
        "last_known_leader_first": ("elr-on", 3), "last_known_leader_kept": ("elr-on", 3),
        "leader_epoch_check": ("elr-on", 2), "min_isr_change_empties_elr": ("elr-on", 41),
        "live_session_check": ("elr-on", 1), "member_epoch_check": ("elr-on", 4),
        "partition_epoch_check": ("elr-on", 7), "sender_is_leader_check": ("elr-on", 10),
        "reassignment_bumps_leader_epoch": ("elr-on", 1), "recovery_state_check": ("elr-on", 1),
        "sender_epoch_check": ("elr-on", 1),
    },
    "4.2": {
        "offline_directory_check": ("elr-on-extras", 11), "assignment_empties_elr": ("elr-on-extras", 7),
        "leftover_elr_elects": ("elr-on-extras", 6), "unassigned_candidate_fails": ("elr-on-extras", 5),
        "elr_follows_election": ("elr-on", 9), "cancellation_is_whole": ("elr-off", 2),
        "clean_registration": ("elr-on-extras", 0), "elr_off_empties_elr": ("elr-on-extras", 0),
        "elr_off_forgets_last_known": ("elr-on-extras", 0), "elr_within_replicas": ("elr-on-extras", 0),
        "finalized_features_check": ("elr-on-extras", 0), "ineligible_replica_check": ("elr-on-extras", 1),
        "last_known_leader_by_leader": ("elr-on-extras", 0), "leader_epoch_check": ("elr-on", 1),
        "level_change_empties_elr": ("elr-on-extras", 0), "min_isr_is_the_clusters": ("elr-on-extras", 0),
        "partition_epoch_check": ("elr-off", 1), "reassignment_needs_min_isr": ("elr-on-extras", 0),
        "registration_leaves_isr": ("elr-off", 0), "replication_factor_check": ("elr-on-extras", 0),
        "sender_epoch_check": ("elr-on-extras", 1), "sender_is_leader_check": ("elr-on-extras", 1),
    },
}  # fmt: skip
"""By rule: a recording that depends on it, replayed first. Other rules matter in one of the first recordings."""
OLDER = sorted(
    {r for n, p in PROFILES.items() if not n.startswith("kafka_4_2") for r in p.rules & RULES.keys()}
    - NOT_RECORDED["trunk"].keys()
)
RULES_4_2 = sorted(PROFILES["kafka_4_2"].rules - NOT_RECORDED["4.2"].keys())
LACKING = (
    "elr_follows_election", "elr_within_replicas", "reassignment_needs_min_isr", "shrink_bumps_leader_epoch",
    "level_change_empties_elr", "elr_off_forgets_last_known",
)  # fmt: skip
"""Rules that recorded 4.2 lacks or has off; with one on, some decision does not conform."""


def candidates(version: str, rule: str) -> Iterator[Path]:
    """The recordings to replay with a rule switched; the first ones most likely depend on it."""
    if (first := FIRST[version].get(rule)) is not None:
        yield of(version, first[0]).files()[first[1]]
    modes = (of("trunk", "elr-on"),) if version == "trunk" else NEW
    for at in range(100):
        yield from (path for mode in modes for path in mode.files()[at : at + 1])


@pytest.mark.parametrize(
    ("version", "rule", "on"),
    [
        *(
            pytest.param(
                "trunk", rule, rule not in PROFILES["kafka_trunk_2024_10"].rules, marks=needs_recordings
            )
            for rule in OLDER
        ),
        *(pytest.param("4.2", rule, False, marks=needs_recordings_4_2) for rule in RULES_4_2),
        *(pytest.param("4.2", rule, True, marks=needs_recordings_4_2) for rule in LACKING),
    ],
)
def test_with_a_rule_switched_some_decision_does_not_conform(version: str, rule: str, on: bool) -> None:
    paths = candidates(version, rule)
    assert any(any(nonconforming(path, {rule: on})) for path in paths), f"no decision depends on {rule}"


@needs_recordings
def test_clean_registration_is_the_rule_of_its_own_mode() -> None:
    """The test of the rules above has the other modes, where the rule is off."""
    paths = of("trunk", "elr-on-cleanaware").files()
    assert any(any(nonconforming(path, {"clean_registration": False})) for path in paths)


@needs_recordings_4_2
def test_with_an_older_profile_a_recording_does_not_conform() -> None:
    assert replay(of("4.2", "elr-on").files()[0], "kafka_trunk_2024_10").unexplained_count > 10


def test_the_level_decides_about_rules_of_the_profile_alone() -> None:
    on, off = PROFILES["kafka_4_2"].rules, PROFILES["kafka_4_2_elr_off"].rules
    assert on - ELR_FEATURE == off
    assert off < on


def newer(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A made recording in the format of a release after 4.2."""
    more = {"kafkaVersion": "4.9.1", "metadataVersion": "4.9-IV1", "minIsrAt": "topic", "staticMinIsr": 1,
            "controllerId": 3000, "bootstrapRecords": []}  # fmt: skip
    return [{"meta": {**lines[0]["meta"], **more}}, *({**line, "elrVersion": 1} for line in lines[1:])]


def test_a_made_recording_of_a_newer_version(tmp_path: Path) -> None:
    lines = made().lines
    assert replay(write(tmp_path / "old.ndjson", lines)).doubts == []
    report = replay(write(tmp_path / "new.ndjson", newer(lines)))
    assert [doubt.kind for doubt in report.doubts] == ["newer version"]
    assert report.doubts[0].summary.startswith(
        "Kafka 4.9.1, metadata.version 4.9-IV1 is newer than any profile"
    )
    assert not any(line.reliable for line in report.unexplained)
    assert not report.explained


def test_an_unknown_operation_is_named_and_counted(tmp_path: Path) -> None:
    """The replay continues from the recorded state, and its report on the other operations stays reliable."""
    lines = made().lines
    again = [{**lines[-1], "i": lines[-1]["i"] + n, "op": {"name": "resizeCluster", "to": n}} for n in (1, 2)]
    path = write(tmp_path / "unknown.ndjson", [*lines, *again])
    report = replay(path)
    assert report.skipped == {"resizeCluster": 2}
    (doubt,) = report.doubts
    assert (doubt.kind, doubt.partitions) == ("unknown operation", ())
    assert doubt.position == {"line": len(lines) + 1, "step": len(lines) - 1}
    assert "resizeCluster" in doubt.summary
    assert report.unexplained_count == 0
    assert CliRunner().invoke(cli, ["replay", str(path)]).exit_code == 3
    wrong = {**lines[-1], "i": lines[-1]["i"] + 3, "error": "NONE"}
    report = replay(write(tmp_path / "wrong.ndjson", [*lines, *again, wrong]))
    assert [line.reliable for line in report.unexplained] == [True]
    assert report.is_violated


def test_after_an_unknown_operation_the_replay_continues_from_the_recorded_state(tmp_path: Path) -> None:
    """The replay takes a missing broker, a new topic and a setting from the line's state and records."""
    lines = made().lines
    last = lines[-1]
    topic = {"type": "TOPIC_RECORD", "version": 0, "data": {"name": "x", "topicId": "an identifier"}}
    data = {"resourceType": 2, "resourceName": "x", "name": "min.insync.replicas", "value": "2"}
    setting = {"type": "CONFIG_RECORD", "version": 0, "data": data}
    partition = {**last["partitions"][0], "topic": "x", "effectiveMinIsr": 2}
    state = {"partitions": [*last["partitions"], partition], "brokers": last["brokers"][:2]}
    more = {**last, "i": last["i"] + 1, "error": "NONE", "op": {"name": "somethingElse"}, **state}
    more |= {"records": [topic, setting]}
    more.pop("response", None)
    nothing = {**more, "i": last["i"] + 2, "nextOffset": last["nextOffset"] + 2, "records": []}
    nothing["op"] = {"name": "maybeBalancePartitionLeaders"}
    report = replay(write(tmp_path / "state.ndjson", [*lines, more, nothing]))
    differences = [dict(c.differences) for u in report.unexplained for c in u.candidates]
    assert not any(
        "effectiveMinIsr" in path or path.startswith("brokers") for wrong in differences for path in wrong
    )


def refused_after(lines: list[dict[str, Any]], at: int, error: str, **changed: Any) -> list[dict[str, Any]]:
    """The recording, with the operation at ``at`` repeated after it and refused with ``error``."""
    again = {**copy.deepcopy(lines[at]), "error": error, "records": [], **changed}
    again["nextOffset"] += len(lines[at]["records"])
    more = [*lines[: at + 1], again, *lines[at + 1 :]]
    return [line | {"i": number} if "i" in line else line for number, line in enumerate(more, -1)]


@needs_recordings_4_2
def test_a_broker_that_is_not_registered_cannot_be_removed_again(tmp_path: Path) -> None:
    lines = lines_of(of("4.2", "elr-on-extras").files()[1])
    at = next(i for i, line in enumerate(lines) if line.get("op", {}).get("name") == "unregisterBroker")
    answer = {
        "exception": "BrokerIdNotRegisteredException",
        "message": "Broker ID 0 is not currently registered",
    }
    report = replay(
        write(tmp_path / "a", refused_after(lines, at, "BROKER_ID_NOT_REGISTERED", response=answer))
    )
    assert report.unexplained == []


@needs_recordings_4_2
@pytest.mark.parametrize("epoch", [-2, -(2**31), -(2**63), 2**63 - 1])
def test_the_epoch_of_a_member_is_any_number_of_64_bits(tmp_path: Path, epoch: int) -> None:
    lines = lines_of(of("4.2", "elr-on-extras").files()[1])
    at = next(i for i, line in enumerate(lines) if line.get("error") == "INELIGIBLE_REPLICA")
    for member in lines[at]["op"]["newIsr"]:
        member["epoch"] = epoch
    assert replay(write(tmp_path / "a", lines)).unexplained == []
