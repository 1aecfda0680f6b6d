"""Features that change while brokers run, and the rules that each feature turns on (966.18).

The metadata version carries two features of KIP-966: the ELR, and the detection of clean shutdowns. Two flags are
separate: ``eligible.leader.replicas.enabled`` and ``unclean.recovery.manager.enabled``. In Kafka 4.2 only the level of
the feature ``eligible.leader.replicas.version`` turns the ELR on, and there is no unclean recovery.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from highwater.model.language import Bool, Number, Only, State, StructValue, Truth, as_bool, size, where
from highwater.model.language.protocol import Parameters
from highwater.model.replication.controller.rules import ELR_FEATURE
from highwater.model.replication.controller.types import ControllerTypes

ELR_RULES = frozenset(
    {
        "eligible_leader_replicas",
        "isr_may_become_empty",
        "last_known_elr",
        "last_known_leader",
        "min_isr_change_empties_elr",
    }
)
"""966.18. The proposals' controller rules that are on only while the ELR is on. For Kafka 4.2 see ELR_FEATURE."""

WITH_THE_VERSION = ELR_RULES | {"clean_registration"}
"""966.12, 966.18. The rules that need a metadata version with KIP-966; without it, every registration is unclean."""

RECOVERY_RULES = frozenset({"unclean_recovery"})
"""966.14. The rules that unclean.recovery.manager.enabled turns on."""

RULES = ELR_FEATURE | WITH_THE_VERSION | RECOVERY_RULES
"""The rules that are on or off by the state's features; ``ControllerContext.decided`` applies them."""


class FeatureCluster(Protocol):
    """The attributes of a cluster that the functions of this module use."""

    p: Parameters
    t: ControllerTypes
    factor: int

    def on(self, rule: str) -> bool:
        """True if a rule is on in every state."""

    def ever_on(self, rule: str) -> bool:
        """True if a rule is on in some state."""

    def min_isr(self, s: State) -> Number:
        """The effective min ISR that the controller uses."""


def level_changes(p: Parameters) -> bool:
    """True if the metadata version changes in the scenario, or lacks the ELR at the start."""
    return bool(p.downgrades or p.upgrades or not p.elr_at_start)


def fields(m: FeatureCluster) -> dict[str, Only]:
    """The state fields for the features that the scenario changes."""
    flags = m.p.flag_changes > 0
    return {
        # The level of the metadata version, and the two flags.
        "elr_level": Only(Bool, level_changes(m.p)),
        "elr_flag": Only(Bool, flags),
        "recovery_flag": Only(Bool, flags and m.ever_on("unclean_recovery")),
        # The ISR has had at least min ISR members at some time since the ELR was turned on. So the ELR lacks no broker
        # that belongs in it.
        "elr_is_whole": Only(Bool, remembers_whole(m)),
    }


def initial(m: FeatureCluster) -> dict[str, Any]:
    """The initial values of the state fields of features; both flags are set."""
    level = m.p.elr_at_start
    enough = min(m.p.initial_isr, m.factor) >= min(m.p.min_isr, m.factor)
    return {"elr_level": level, "elr_flag": True, "recovery_flag": True, "elr_is_whole": level and enough}


def changes(m: FeatureCluster) -> bool:
    """True if the ELR can be off: the metadata version changes or lacks the ELR at the start, or the flag changes."""
    return level_changes(m.p) or m.p.flag_changes > 0


def remembers_whole(m: FeatureCluster) -> bool:
    """True if the state has ``elr_is_whole``: the ELR can be off, and rule ``leftover_elr_elects`` is off."""
    return changes(m) and not m.on("leftover_elr_elects")


def has_elr(m: FeatureCluster, s: State) -> Truth:
    """966.18. True if the ELR is on: the metadata version has it, and the flag is set.

    If the scenario cannot change the version or the flag, the state has no field for it, and it counts as on.
    """
    level = s.elr_level if level_changes(m.p) else as_bool(True)
    return level & s.elr_flag if m.p.flag_changes else level


def has_recovery(m: FeatureCluster, s: State) -> Truth:
    """966.14. True if unclean recovery replaces unclean election."""
    if not m.ever_on("unclean_recovery"):
        return as_bool(False)
    return s.recovery_flag if m.p.flag_changes else as_bool(True)


def by_features(m: FeatureCluster, s: State) -> tuple[tuple[Truth, ControllerTypes], ...]:
    """966.18. Pairs of a condition on the features, and the controller's types with the rules that are then on.

    If several conditions hold, the last pair applies.
    """
    return tuple((condition, m.t.under(m.t.rules - off)) for condition, off in _rules_off(m, s))


def _rules_off(m: FeatureCluster, s: State) -> Iterator[tuple[Truth, frozenset[str]]]:
    nothing: frozenset[str] = frozenset()
    elr = [(as_bool(True), nothing)]
    if m.p.flag_changes:
        elr.append((~s.elr_flag, ELR_RULES))
    if level_changes(m.p):
        elr.append((~s.elr_level, ELR_FEATURE if m.on("leftover_elr_elects") else WITH_THE_VERSION))
    recovery = [(as_bool(True), nothing)]
    if m.p.flag_changes and m.ever_on("unclean_recovery"):
        recovery.append((~s.recovery_flag, RECOVERY_RULES))
    for manager_is_off, of_recovery in recovery:
        for elr_is_off, of_elr in elr:
            yield manager_is_off & elr_is_off, of_recovery | of_elr


def partition_as_read(m: FeatureCluster, s: State) -> StructValue:
    """966.18. The partition as the controller reads it: with empty ELR fields while the ELR is off."""
    if not changes(m):
        return s.partition
    read: StructValue = where(has_elr(m, s), s.partition, without_elr_fields(m, s.partition))
    return read


def store(m: FeatureCluster, s: State, partition: StructValue) -> None:
    """Store the partition after an action, and update ``elr_is_whole`` if the state has it."""
    s.next.partition = partition
    if remembers_whole(m):
        s.next.elr_is_whole = has_elr(m, s) & (s.elr_is_whole | is_whole(m, s, partition))


def is_whole(m: FeatureCluster, s: State, partition: StructValue) -> Truth:
    """966.6. True if the ISR has at least min ISR members: the ELR is then complete although it is empty."""
    return size(partition.isr) >= m.min_isr(s)


def without_elr_fields(m: FeatureCluster, partition: StructValue) -> StructValue:
    """The partition with its ELR, last known ELR and last known leader emptied."""
    nobody = m.t.brokers.zero()
    return partition.replace(elr=nobody, last_known_elr=nobody, last_known_leader=None)
