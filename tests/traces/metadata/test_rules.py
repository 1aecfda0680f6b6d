"""The replay selects rules by the features, the controllers' versions, and the changes of all partitions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from highwater.model.language import where
from highwater.model.replication.controller import registrations
from highwater.traces.kafka.values import encode
from highwater.traces.rules.decisions import decisions
from tests.generation import records
from tests.traces.metadata.made_logs import (
    ELR,
    FENCED,
    MIN_ISR,
    OFF,
    ON,
    SHRUNK,
    TOPICS,
    UNCLEAN,
    Records,
    Wrong,
    beginning,
    change,
    clear,
    count,
    default,
    feature,
    partition,
    registration,
    registration_change,
    replayed,
    setting,
    together,
    unexplained,
    wrong,
)

START, START_OFF = len(beginning(*ON)), len(beginning(*OFF))
NEW = "AAAAAAAAAAAAAAAAAAAAEA"


def outcome(
    folder: Path, *values: bytes | list[bytes], start: Records | None = None
) -> tuple[Wrong, list[str], str]:
    """The records after ``start`` that do not conform, the kinds of doubts, and the profile."""
    begun = beginning(*ON) if start is None else start
    report = replayed(folder, *values, start=begun)
    return unexplained(report, count(begun)), [doubt.kind for doubt in report.doubts], report.profile


# --- levels of features in mid-log ---------------------------------------------------------------------------


def test_an_upgrade_of_the_features_carries_belief_states_over(tmp_path: Path) -> None:
    """The model's state has more variables under the newer rules."""
    upgrade = [default("2"), *(feature(name, at) for name, at in ON)]
    values = (change(0, isr=[0, 1]), upgrade, change(0, isr=[0], eligibleLeaderReplicas=[1]))
    assert outcome(tmp_path, *values, start=beginning(("metadata.version", 22))) == ([], [], "kafka_4_2")


def test_turning_elr_on_adds_elrs_from_then_on(tmp_path: Path) -> None:
    """The same batch writes the cluster's min ISR and removes a broker's."""
    up = [default("3"), default(None, broker="1"), feature(ELR, 1)]
    no_own = [setting(MIN_ISR, None), setting(MIN_ISR, None, "u")]
    shrinks = change(0, isr=[0, 1], eligibleLeaderReplicas=[2])
    start = beginning(*OFF)
    assert outcome(tmp_path, *no_own, up, shrinks, start=start) == ([], [], "kafka_4_2")
    assert wrong(tmp_path, *no_own, up, change(0, isr=[0, 1]), start=start) == [(5, "t-0")]
    assert wrong(tmp_path, *no_own, shrinks, up, start=start) == [(2, "t-0")]


def test_the_next_change_empties_a_left_over_elr_at_any_level(tmp_path: Path) -> None:
    down, up = feature(ELR, 0), feature(ELR, 1)
    emptied = change(0, isr=[0, 2], eligibleLeaderReplicas=[])
    alone = change(0, isr=[0], eligibleLeaderReplicas=[2])
    assert outcome(tmp_path, *SHRUNK, down, emptied, up, alone) == ([], [], "kafka_4_2")
    report = replayed(tmp_path, *SHRUNK, down, emptied, change(0, isr=[0]))
    assert (report.unexplained, report.profile, report.findings) == ([], "kafka_4_2_elr_off", [])
    assert wrong(tmp_path, *SHRUNK, down, change(0, isr=[0, 2], eligibleLeaderReplicas=[1])) == [(3, "t-0")]
    assert wrong(tmp_path, *SHRUNK, down, emptied, alone) == [(4, "t-0")]


@pytest.mark.parametrize(("node", "allowed"), [(None, False), ("true", True), ("false", False)])
def test_the_setting_of_any_node_can_be_in_force(tmp_path: Path, node: str | None, allowed: bool) -> None:
    """The active controller's own setting precedes the cluster's, and any node can be the controller."""
    settings = [
        default("false", records.UNCLEAN),
        *([] if node is None else [default(node, records.UNCLEAN, "3000")]),
    ]
    to_01 = [change(0, topic, isr=[0, 1]) for topic in "tu"]
    to_0 = [change(0, topic, isr=[0], eligibleLeaderReplicas=[1]) for topic in "tu"]
    elected = [change(0, topic, **UNCLEAN) for topic in "tu"]
    down_1, down_0 = (registration_change(broker, 2 + 2 * broker, fenced=1) for broker in (1, 0))
    assert (wrong(tmp_path, *settings, to_01, [*to_0, down_1], [*elected, down_0]) == []) == allowed


# --- levels and settings that the controller refuses ---------------------------------------------------------


def test_with_elr_on_only_the_cluster_has_a_min_isr(tmp_path: Path) -> None:
    """K15. No broker has one of its own, and the cluster's is not removed; with ELR off both are allowed."""
    of_broker, removed = default("1", broker="1"), default(None)
    for refused in (of_broker, removed, default(None, broker="1")):
        assert wrong(tmp_path, [refused, clear("")]) == [(0, None)]
        assert wrong(tmp_path, refused, start=beginning(*OFF)) == []
    assert wrong(tmp_path, [of_broker, default("2"), clear(""), clear("")]) == [(0, None)]


def test_turning_elr_on_writes_the_settings_that_make_it_safe(tmp_path: Path) -> None:
    """K15. The cluster gets a min ISR and brokers lose theirs, in the same decision, before or after the level."""
    on, value, off = feature(*ON[1]), default("2"), beginning(*OFF)
    own, removed = default("1", broker="1"), default(None, broker="1")
    for safe in ([[value, on]], [[on, value]], together(on, value), [value, on], [own, [value, removed, on]]):
        assert wrong(tmp_path, *safe, start=off) == []
    assert wrong(tmp_path, on, start=off) == [(0, None)]
    assert wrong(tmp_path, own, [value, on], start=off) == [(2, None)]


def supports(metadata: tuple[int, int] = (7, 29), elr: tuple[int, int] = (0, 1)) -> list[dict[str, Any]]:
    return records.supported({"metadata.version": metadata, ELR: elr})


def test_a_broker_supports_the_finalized_features(tmp_path: Path) -> None:
    """584.1. A broker supports level 0 of a feature that it does not list."""

    def registered(features: list[dict[str, Any]], epoch: int = START) -> bytes:
        return registration(3, epoch, incarnationId=NEW, features=features)

    assert wrong(tmp_path, registered(supports())) == []
    refused = (supports(elr=(0, 0)), supports((7, 28)), supports((30, 31)), supports()[:1], supports()[1:])
    for features in refused:
        assert wrong(tmp_path, registered(features)) == [(0, None)]
    (line,) = replayed(tmp_path, registered(supports(elr=(0, 0)), START + 9)).unexplained
    assert [set(c.differences) for c in line.candidates] == [{f"support of {ELR}"}, {"brokerEpoch"}]
    older, off = registered(supports(elr=(0, 0)), START_OFF), beginning(*OFF)
    assert wrong(tmp_path, older, start=off) == []
    assert wrong(tmp_path, older, [default("2"), feature(ELR, 1)], start=off) == [(2, None)]


# --- the code of controllers ---------------------------------------------------------------------------------


def controller(number: int, metadata: int, elr: int) -> bytes:
    return records.controller(number, NEW, supports((0, metadata), (0, elr)))


NEW_CODE = (controller(100, 29, 1), controller(101, 29, 1))
FENCED_TWICE = (FENCED, FENCED[-1])


@pytest.mark.parametrize(
    ("features", "profile"),
    [
        (((ELR, 0), ("metadata.version", 22)), "kafka_4_2_elr_off"),
        ((("metadata.version", 25), (ELR, 0)), "kafka_4_2_elr_off"),
        ((("metadata.version", 25), (ELR, 1)), "kafka_4_2"),
        ((("metadata.version", 28), (ELR, 1)), "kafka_4_2"),
    ],
)
def test_controllers_of_4_2_decide_by_its_rules_under_older_features(
    tmp_path: Path, features: Any, profile: str
) -> None:
    """Such a log is written before an upgrade is finalized, or after a downgrade. An older controller is in doubt."""
    lowered = [feature(name, level) for name, level in features]
    assert outcome(tmp_path, *NEW_CODE, lowered, *FENCED_TWICE) == ([], [], profile)
    found, doubts, _ = outcome(tmp_path, NEW_CODE[0], controller(101, 25, 0), lowered, *FENCED_TWICE)
    assert (found, doubts) == ([], ["newer version"])


@pytest.mark.parametrize(
    ("codes", "metadata", "elr", "profile"),
    [
        ((25,), 25, 1, "kafka_4_0"),
        ((25,), 25, 0, "kafka_4_2_elr_off"),
        ((27,), 27, 0, "kafka_4_2_elr_off"),
        ((27,), 27, 1, None),  # 4.1.0 or 4.1.2
        ((30,), 29, 1, "kafka_4_3"),
        ((33,), 30, 1, "kafka_4_3"),
        ((33,), 33, 0, "kafka_4_3_elr_off"),
        ((34,), 33, 1, None),
        ((29, 30), 29, 1, None),
    ],
)
def test_the_code_of_all_controllers_decides(
    tmp_path: Path, codes: tuple[int, ...], metadata: int, elr: int, profile: str | None
) -> None:
    controllers = (controller(100 + at, code, 1) for at, code in enumerate(codes))
    levels = [feature("metadata.version", metadata), feature(ELR, elr)]
    found, doubts, used = outcome(tmp_path, *controllers, levels)
    assert found == []
    assert (used, doubts) == (profile, []) if profile else doubts == ["newer version"]


def test_new_code_decides_by_its_rules_before_the_features_are_upgraded(tmp_path: Path) -> None:
    start = beginning(("metadata.version", 22), ("kraft.version", 0))
    upgrade = [feature("metadata.version", 29), default("2"), feature(ELR, 1)]
    last = change(0, isr=[0], eligibleLeaderReplicas=[1])
    values = (controller(100, 29, 1), *FENCED_TWICE, upgrade, last)
    assert outcome(tmp_path, *values, start=start) == ([], [], "kafka_4_2")
    assert wrong(tmp_path, *FENCED_TWICE, start=start) != []
    assert outcome(tmp_path, *FENCED_TWICE, controller(100, 29, 1), start=start)[0] != []


@pytest.mark.parametrize(
    ("values", "is_newer"),
    [
        ([feature("metadata.version", 22), controller(1, 25, 0)], False),
        ([feature("metadata.version", 22), controller(1, 25, 0), controller(2, 26, 0)], True),
        ([feature("metadata.version", 22), controller(1, 24, 1)], True),
        ([feature("metadata.version", 24), controller(1, 25, 0)], True),
        ([controller(1, 25, 0)], False),
        ([controller(1, 29, 0)], False),
        ([*beginning(("metadata.version", 25), (ELR, 1)), controller(100, 30, 1)], True),
        ([*beginning(("metadata.version", 11)), *NEW_CODE], True),
    ],
)
def test_a_controller_newer_than_the_profiles_of_its_level_is_doubted(
    tmp_path: Path, values: list[bytes], is_newer: bool
) -> None:
    """Below 4.0-IV1 the known code supports metadata.version up to 25 and no ELR."""
    report = replayed(tmp_path, start=values)
    assert [doubt.kind for doubt in report.doubts] == ["newer version"] * is_newer


# --- registrations of brokers -------------------------------------------------------------------------


ANOTHER = "AAAAAAAAAAAAAAAAAAAABA"
NO_OP = encode("NO_OP_RECORD", 0, {})
REGISTERED, UNFENCED = registration(0, 0), registration_change(0, 0, fenced=-1)


def nonconforming(folder: Path, *values: bytes) -> list[tuple[int, str, dict[str, Any]]]:
    """The offset of each entry, the action that comes nearest, and the fields in which it differs."""
    return [
        (entry.position["offset"], near.action, dict(near.differences))
        for entry in replayed(folder, *values, start=[]).unexplained
        for near in entry.candidates[:1]
    ]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((NO_OP, registration(0, 1)), None),
        *(((NO_OP, registration(0, epoch)), ("register", ("1", epoch))) for epoch in (0, 2, -1)),
        ((REGISTERED, registration(0, 1, incarnationId=ANOTHER)), None),
        ((REGISTERED, registration(0, 0, incarnationId=ANOTHER)), ("register", ("1, and above 0", 0))),
        ((REGISTERED, UNFENCED), None),
        ((REGISTERED, registration_change(0, 3, fenced=-1)), ("change a registration", (0, 3))),
    ],
)
def test_a_broker_epoch_is_the_offset_of_its_registration(
    tmp_path: Path, values: tuple[bytes, bytes], expected: tuple[str, Any] | None
) -> None:
    """Another incarnation gets a larger epoch, and a change of a registration repeats the epoch."""
    found = [] if expected is None else [(1, expected[0], {"brokerEpoch": expected[1]})]
    assert nonconforming(tmp_path, *values) == found


def test_the_same_incarnation_keeps_its_registration(tmp_path: Path) -> None:
    assert nonconforming(tmp_path, REGISTERED, REGISTERED, UNFENCED, registration(0, 0, fenced=False)) == []


@pytest.mark.parametrize(
    ("changed", "differences"),
    [
        ({"brokerEpoch": 1}, {"brokerEpoch": (0, 1)}),
        ({"fenced": False}, {"registration.fenced": (True, False)}),
        ({"inControlledShutdown": True}, {"registration.in_controlled_shutdown": (False, True)}),
    ],
)
def test_another_registration_of_the_same_incarnation_is_reported_once(
    tmp_path: Path, changed: dict[str, Any], differences: dict[str, Any]
) -> None:
    again = registration(0, 0, **changed)
    assert nonconforming(tmp_path, REGISTERED, again, again) == [
        (1, "register the same incarnation", differences)
    ]


@pytest.fixture
def other_rule(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A model in which a broker that registers again begins anew, fenced and with another epoch."""

    def register(t: Any, registration: Any, same_incarnation: Any, new_epoch: Any) -> Any:
        new = t.registration(registered=True, epoch=new_epoch, fenced=True, in_controlled_shutdown=False)
        return where(same_incarnation, new, registration)

    monkeypatch.setattr(registrations, "registration_after", register)
    decisions.cache_clear()
    yield
    decisions.cache_clear()


@pytest.mark.usefixtures("other_rule")
def test_the_model_decides_what_the_same_incarnation_keeps(tmp_path: Path) -> None:
    ((offset, _, differences),) = nonconforming(tmp_path, REGISTERED, REGISTERED)
    assert (offset, list(differences)) == (1, ["brokerEpoch"])


@pytest.mark.parametrize("moved", [True, False], ids=["the leader moves", "the leader stays"])
def test_a_removed_broker_is_fenced_first_before_4_2(tmp_path: Path, moved: bool) -> None:
    brokers = [
        made
        for b in (0, 1)
        for made in (registration(b, 1 + 2 * b), registration_change(b, 1 + 2 * b, fenced=-1))
    ]
    topic, removed = records.topic("t", TOPICS["t"]), records.unregistration(0, 1)
    last = [*[change(0, isr=[1], leader=1)] * moved, removed]
    created = partition(0, replicas=[0, 1], isr=[0, 1])
    report = replayed(tmp_path, *brokers, topic, created, last, start=[records.feature(records.METADATA, 22)])
    found = [(entry.partition, entry.candidates[0].action) for entry in report.unexplained]
    assert found == ([] if moved else [("t-0", "fence")])


def test_a_controller_that_is_removed_is_not_doubted(tmp_path: Path) -> None:
    removed = encode("UNREGISTER_CONTROLLER_RECORD", 0, {"controllerId": 101})
    newer, start = controller(101, 33, 1), [*beginning(*ON)]
    for values, number in (([newer, removed], 0), ([removed, newer], 1)):
        report = replayed(tmp_path, [controller(100, 29, 1), *values], partition(1), start=start)
        assert [doubt.kind for doubt in report.doubts] == ["newer version"] * number
