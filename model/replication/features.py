"""Features that change while brokers run, and the rules that each feature turns on (966.18).

The metadata version carries two features of KIP-966: the ELR, and the detection of clean shutdowns. Two flags are
separate: ``eligible.leader.replicas.enabled`` and ``unclean.recovery.manager.enabled``. In Kafka 4.2 only the level of
the feature ``eligible.leader.replicas.version`` turns the ELR on, and there is no unclean recovery.
"""

from __future__ import annotations

from typing import Any

from highwater.model.language import (
    Bool,
    LanguageError,
    Number,
    Only,
    Protocol,
    State,
    StructValue,
    Truth,
    as_bool,
    size,
    where,
)
from highwater.model.replication.controller.partition_change import effective_min_isr
from highwater.model.replication.controller.rules import ELR_FEATURE
from highwater.model.replication.controller.types import ControllerContext, ControllerTypes

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
    """The part of a cluster that depends on features; ``context`` resolves the controller's rules for a state."""

    t: ControllerTypes
    factor: int

    def on(self, rule: str) -> bool:
        """True if a rule is on in every state.

        Raises LanguageError for an unknown rule, and for a rule that features turn on or off (``RULES``).
        """
        if rule in RULES:
            raise LanguageError(f"feature levels decide whether rule {rule!r} is on: ask through decided()")
        return super().on(rule)

    @property
    def level_changes(self) -> bool:
        """True if the metadata version changes in the scenario, or lacks the ELR at the start."""
        return bool(self.p.downgrades or self.p.upgrades or not self.p.elr_at_start)

    @property
    def elr_changes(self) -> bool:
        """True if the ELR can be off: the version changes or lacks the ELR at the start, or the flag changes."""
        return self.level_changes or self.p.flag_changes > 0

    @property
    def remembers_whole(self) -> bool:
        """True if the state has ``elr_is_whole``: the ELR can be off, and rule ``leftover_elr_elects`` is off."""
        return self.elr_changes and not self.on("leftover_elr_elects")

    def feature_fields(self) -> dict[str, tuple[Only, str]]:
        """The state fields for the features that the scenario changes."""
        flags = self.p.flag_changes > 0
        return {
            "elr_level": (Only(Bool, self.level_changes), "whether the metadata version has the ELR"),
            "elr_flag": (Only(Bool, flags), "eligible.leader.replicas.enabled"),
            "recovery_flag": (
                Only(Bool, flags and self.ever_on("unclean_recovery")),
                "unclean.recovery.manager.enabled",
            ),
            # Then the ELR lacks no broker that belongs in it.
            "elr_is_whole": (
                Only(Bool, self.remembers_whole),
                "whether the ISR has had min ISR members since the ELR was turned on",
            ),
        }

    def initial_features(self) -> dict[str, Any]:
        """The initial values of the state fields of features; both flags are set."""
        level = self.p.elr_at_start
        enough = min(self.p.initial_isr, self.factor) >= min(self.p.min_isr, self.factor)
        return {
            "elr_level": level,
            "elr_flag": True,
            "recovery_flag": True,
            "elr_is_whole": level and enough,
        }

    def has_elr(self, s: State) -> Truth:
        """966.18. True if the ELR is on: the metadata version has it, and the flag is set.

        If the scenario cannot change the version or the flag, the state has no field for it, and it counts as on.
        """
        level = s.elr_level if self.level_changes else as_bool(True)
        return level & s.elr_flag if self.p.flag_changes else level

    def has_recovery(self, s: State) -> Truth:
        """966.14. True if unclean recovery replaces unclean election."""
        if not self.ever_on("unclean_recovery"):
            return as_bool(False)
        return s.recovery_flag if self.p.flag_changes else as_bool(True)

    def min_isr(self, s: State) -> Number:
        """966.2. The effective min ISR that the controller uses."""
        return effective_min_isr(s.min_insync_replicas, s.partition.replicas.length)

    def context(self, s: State) -> ControllerContext:
        """966.18. The argument of the controller's handlers: the controller's state, and the rules for its features.

        The controller may elect uncleanly if unclean.leader.election.enable is set, and unclean recovery does not
        replace unclean election.
        """
        always = as_bool(True), frozenset[str]()
        elr, recovery = [always], [always]
        if self.p.flag_changes:
            elr.append((~s.elr_flag, ELR_RULES))
            if self.ever_on("unclean_recovery"):
                recovery.append((~s.recovery_flag, RECOVERY_RULES))
        if self.level_changes:
            elr.append((~s.elr_level, ELR_FEATURE if self.on("leftover_elr_elects") else WITH_THE_VERSION))
        by_features = tuple(
            (manager_is_off & elr_is_off, self.t.under(self.t.rules - of_recovery - of_elr))
            for manager_is_off, of_recovery in recovery
            for elr_is_off, of_elr in elr
        )
        unclean = as_bool(self.p.unclean_election) & ~self.has_recovery(s)
        return ControllerContext(self.t, s.partition, s.registrations, self.min_isr(s), unclean, by_features)

    def as_read(self, s: State) -> StructValue:
        """966.18. The partition as the controller reads it: with empty ELR fields while the ELR is off."""
        partition: StructValue = s.partition
        if not self.elr_changes:
            return partition
        nobody = self.t.brokers.zero()
        without_elr = partition.replace(elr=nobody, last_known_elr=nobody, last_known_leader=None)
        return where(self.has_elr(s), partition, without_elr)

    def store(self, s: State, partition: StructValue) -> None:
        """Store the partition after an action, and update ``elr_is_whole`` if the state has it."""
        s.next.partition = partition
        if self.remembers_whole:
            s.next.elr_is_whole = self.has_elr(s) & (s.elr_is_whole | self.is_whole(s, partition))

    def is_whole(self, s: State, partition: StructValue) -> Truth:
        """966.6. True if the ISR has at least min ISR members: the ELR is then complete although it is empty."""
        return size(partition.isr) >= self.min_isr(s)
