"""The real controller's decisions: all are explained, every change to a recording shows, and every rule matters."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from highwater.model.replication.controller.rules import PROFILES, RULES
from highwater.traces.operations.decide import NEWER
from highwater.traces.operations.read_recording import OPERATIONS
from highwater.traces.reading import TraceError
from highwater.traces.replay import replay
from tests.slow import slow
from tests.traces.recorded import (
    MODES,
    another,
    fields_of,
    files,
    get,
    is_outside,
    lines_of,
    made,
    name_of,
    needs_recordings,
    put,
    write,
)

PROFILE_OF = {
    "elr-on": "kafka_trunk_2024_10",
    "elr-on-cleanaware": "kafka_trunk_2024_10",
    "elr-off": "kafka_trunk_2024_10_elr_off",
    "elr-off-prod": "before_kip_966",
}
COUNTS = {"elr-on": 100, "elr-on-cleanaware": 40, "elr-off": 60, "elr-off-prod": 40}


@needs_recordings
def test_every_recording_is_there() -> None:
    assert {mode: len(files(mode)) for mode in MODES} == COUNTS


@needs_recordings
@pytest.mark.parametrize(
    "every", [10, pytest.param(1, marks=slow("all 240 recordings; the fast test has one in ten"))]
)
@pytest.mark.parametrize("mode", MODES)
def test_every_recorded_operation_is_explained(mode: str, every: int) -> None:
    operations, paths = 0, files(mode)[::every]
    for path in paths:
        report = replay(path)
        assert not report.unexplained, (path.name, report.unexplained[0].lines())
        assert report.profile == PROFILE_OF[mode]
        operations += report.operations
    assert operations > 100 * len(paths)


# --- a change shows -------------------------------------------------------------------------------------

SETS = (
    "isr",
    "partitions",
    "brokers",
    "records",
    "results",
    "newIsr",
    "renewed",
    "elrIndexExtra",
    "onlineDirs",
)
"""Lists whose order says nothing: ISRs and what is one of a set of partitions, brokers, or members."""


def only_order_changed(name: str, old: Any, new: Any) -> bool:
    last = name.rsplit(".", 1)[-1].removesuffix("[]")
    if last not in SETS or not isinstance(old, list) or not isinstance(new, list):
        return False
    return sorted(map(json.dumps, old)) == sorted(map(json.dumps, new))


def is_argument(name: str) -> bool:
    """What an operation is given: its arguments, the clock, and the session timeout of the recording.

    That there could be more brokers than there are changes nothing, and what directories a broker registers with is no
    argument of its own: it is what the state has afterwards.
    """
    return name.startswith(("op.", "brokers[].onlineDirs")) or name in (
        "timeMs", "meta.sessionTimeoutMs", "meta.staticMinIsr", "meta.controllerId", "meta.brokers",
    )  # fmt: skip


def fate(path: Path, lines: list[dict[str, Any]], rng: random.Random) -> tuple[str, str]:
    """Change one field of one line; what becomes of it, and which field it was."""
    changed = copy.deepcopy(lines)
    line = rng.randrange(len(changed))
    field = rng.choice(list(fields_of(changed[line])))
    name, old = name_of(field), get(changed[line], field)
    new = another(rng, old)
    if new == old:
        return "the same value", name
    put(changed[line], field, new)
    try:
        report = replay(write(path, changed))
        if report.unexplained or report.doubts:
            return "reported", name
    except TraceError:
        return "reported", name
    if is_outside(name):
        return "outside the model", name
    if only_order_changed(name, old, new):
        return "order of a set", name
    # The controller, given this argument, decides the same: replay has run the rules with it.
    return ("same decision" if is_argument(name) else "UNNOTICED"), name


def fates(path: Path, recordings: list[list[dict[str, Any]]], count: int, seed: int) -> Counter[str]:
    rng, found = random.Random(seed), Counter[str]()
    unnoticed: Counter[str] = Counter()
    while found.total() - found["the same value"] < count:
        what, name = fate(path, rng.choice(recordings), rng)
        found[what] += 1
        if what == "UNNOTICED":
            unnoticed[name] += 1
    assert not unnoticed
    return found


def sample(count: int, seed: int) -> list[list[dict[str, Any]]]:
    rng = random.Random(seed)
    return [lines_of(path) for path in rng.sample([p for mode in MODES for p in files(mode)], count)]


@needs_recordings
def test_a_change_of_one_field_shows(tmp_path: Path) -> None:
    beginnings = [lines[:60] for lines in sample(8, 1)]
    found = fates(tmp_path / "changed.ndjson", beginnings, 60, seed=1)
    assert found["reported"] > 36


@slow("a thousand changes of a large recording; the fast tests have some")
@needs_recordings
def test_a_change_of_one_field_shows_a_thousand_times(tmp_path: Path) -> None:
    found = fates(tmp_path / "changed.ndjson", sample(240, 2), 1000, seed=2)
    print(found)
    assert found["reported"] > 700


def test_a_change_of_one_field_shows_in_a_made_recording(tmp_path: Path) -> None:
    found = fates(tmp_path / "changed.ndjson", [made().lines], 100, seed=3)
    assert found["reported"] > 60


OTHERS: dict[str, list[Any]] = {
    "createTopic: configs": [{"min.insync.replicas": "1"}, {"min.insync.replicas": "3"}],
    "electLeaders: type": ["PREFERRED", "UNCLEAN"],
    "incrementalAlterConfigs: key": ["min.insync.replicas", "unclean.leader.election.enable"],
    "incrementalAlterConfigs: resource": ["t0", "t1"],
    "incrementalAlterConfigs: resourceType": ["TOPIC", "BROKER"],
    "incrementalAlterConfigs: value": ["1", "2", "3", "true", "false"],
}
"""Other values for arguments that take only a few."""


@needs_recordings
def test_no_argument_is_ignored(tmp_path: Path) -> None:
    """Each argument of each operation shows in some recording when it is changed, but the recorder's own."""
    wanted = {
        f"{op}: {arg}"
        for op, arguments in OPERATIONS.items()
        for arg in arguments
        if arg != "kind" and op not in NEWER
    }
    rng = random.Random(5)
    for lines in sample(40, 6):
        for at, line in enumerate(lines[1:], start=1):
            for argument, old in line["op"].items():
                key = f"{line['op']['name']}: {argument}"
                if key not in wanted or rng.random() < 0.8:
                    continue
                new = rng.choice(OTHERS[key]) if key in OTHERS else another(rng, old)
                changed = copy.deepcopy(lines[: at + 1])
                changed[at]["op"][argument] = new
                try:
                    report = replay(write(tmp_path / "changed.ndjson", changed))
                    shows = bool(report.unexplained or report.doubts)
                except TraceError:
                    # Of a value of a wrong kind this says nothing; one of OTHERS does not fit what is recorded.
                    shows = key in OTHERS
                if shows:
                    wanted.discard(key)
    assert not wanted


# --- every rule matters ---------------------------------------------------------------------------------


_NO_LEVEL_CHANGES = "ELR is on or off in a whole recording; those of 4.2, where its level changes, tell it"
_ALLOWS_MORE = "no Kafka's: with it any candidate may be elected, also the first, which is what was recorded"
NOT_RECORDED = {
    "clean_election_picks_any": _ALLOWS_MORE,
    "unclean_election_picks_any": _ALLOWS_MORE,
    "balanced_election_waits_for_elr": "no Kafka's: it has no LONGEST_LOG elections",
    "elr_off_empties_elr": _NO_LEVEL_CHANGES,
    "elr_off_forgets_last_known": _NO_LEVEL_CHANGES,
}
"""Rules that no recorded operation can tell, with the reason."""
OLDER = [
    rule
    for rule in RULES
    if any(rule in p.rules for n, p in PROFILES.items() if not n.startswith("kafka_4_2"))
    and rule not in NOT_RECORDED
]
"""The others are Kafka 4.2's, and ``test_recordings_4_2`` asks its recordings."""
KNOWN = {
    "elr_follows_election": 48,
    "elr_within_replicas": 1,
    "last_known_leader_first": 3,
    "last_known_leader_kept": 3,
    "leader_epoch_check": 2,
    "min_isr_change_empties_elr": 41,
    "reassignment_bumps_leader_epoch": 1,
    "recovery_state_check": 1,
    "sender_epoch_check": 1,
}
"""A recording that tells a rule, which is asked first: for others one of the first does."""


@needs_recordings
@pytest.mark.parametrize("rule", OLDER)
def test_with_a_rule_switched_some_decision_is_not_explained(rule: str) -> None:
    """Switched off where it is in force, on where it is not: the real decisions tell the two apart."""
    recorded = files("elr-on")
    known = [recorded[KNOWN[rule]]] if rule in KNOWN else []
    for path in [*known, *(p for two in zip(recorded, recorded[40:], strict=False) for p in two)]:
        on = rule in PROFILES[PROFILE_OF["elr-on"]].rules
        if replay(path, rules={rule: not on}).unexplained:
            return
    pytest.fail(f"no recorded decision depends on {rule}")


@needs_recordings
@pytest.mark.parametrize("rule", NOT_RECORDED)
def test_a_rule_that_no_recording_tells_is_told_by_none(rule: str) -> None:
    for mode, profile in PROFILE_OF.items():
        on = rule in PROFILES[profile].rules
        for path in files(mode, 2):
            assert not replay(path, rules={rule: not on}).unexplained, (rule, path)


@needs_recordings
def test_clean_registration_is_the_rule_of_its_own_mode() -> None:
    assert any(replay(p, rules={"clean_registration": False}).unexplained for p in files("elr-on-cleanaware"))
    assert any(replay(p, rules={"clean_registration": True}).unexplained for p in files("elr-on"))
