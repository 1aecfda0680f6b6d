"""The rules to replay with, from a profile and switches, or from a metadata log's features.

The module also has the rules about brokers' logs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from highwater.invariants import statements
from highwater.invariants.replication import observed
from highwater.model.language import Index, Int, Option, Struct
from highwater.model.language.function import Function
from highwater.model.language.protocol import rules_on
from highwater.model.language.types import Number, StructValue, Truth, Type
from highwater.model.language.types import Set as SetOf
from highwater.model.replication import logs
from highwater.model.replication.controller import Controller, elections
from highwater.model.replication.controller.types import MAX_INT, MAX_LONG


@dataclass(frozen=True)
class RuleSet:
    """A set of rules: the profile's name, and the rules that are on after all switches."""

    profile: str
    rules: frozenset[str]


def rule_set(profile: str, switched: Mapping[str, bool] | None = None) -> RuleSet:
    """The rules of a profile; ``switched`` overrides them.

    Raises ChoiceError for a profile or a rule that does not exist.
    """
    return RuleSet(profile, rules_on(Controller, profile, switched or {}))


METADATA_VERSION = "metadata.version"
ELR_VERSION = "eligible.leader.replicas.version"
OTHER_FEATURES = frozenset(
    {"kraft.version", "transaction.version", "group.version", "share.version", "streams.version"}
)
"""Features that do not affect replicas and leaders."""
SUPPOSED_VERSION = 29
"""The assumed metadata.version of a log that does not record metadata.version."""
ANY = 1 << 15
"""A number above every feature level."""

Controllers = Mapping[int, Mapping[str, int]]
"""The highest feature levels that each controller has reported as supported, by controller id."""


@dataclass(frozen=True)
class VersionRules:
    """Feature levels, and the profile at these levels.

    - ``metadata``: levels of metadata.version.
    - ``elr``: levels of eligible.leader.replicas.version; None is a log without the feature.
    - ``stands_in``: True if no profile covers these levels; ``profile`` is then the closest one.
    - ``code``: the highest levels that the modelled Kafka code supports. Newer code can decide differently.
    - ``by_code``: the entry applies only if every controller reports exactly the levels in ``code`` as supported.
    """

    metadata: range
    elr: tuple[int | None, ...]
    profile: str
    stands_in: bool = False
    code: tuple[tuple[str, int], ...] = ((METADATA_VERSION, 29), (ELR_VERSION, 1))
    by_code: bool = False


def _code(metadata: int, *, elr: int = 1) -> tuple[tuple[str, int], ...]:
    return (METADATA_VERSION, metadata), (ELR_VERSION, elr)


_BEFORE_ELR = _code(25, elr=0)
_4_0, _4_1, _4_2, _4_3, _4_4 = map(_code, (25, 27, 29, 30, 33))
_ELR_OFF, _ELR_ON = range(12, 29), range(23, 29)
VERSIONS = (
    # Kafka 4 with lower feature levels: the levels decide only about ELR. With the ELR off, 4.0 to 4.2 decide alike.
    # The levels of 4.1.0 and 4.1.2 are the same, and their rules with the ELR on differ.
    *(
        VersionRules(_ELR_OFF, (None, 0), "kafka_4_2_elr_off", code=c, by_code=True)
        for c in (_4_0, _4_1, _4_2)
    ),
    VersionRules(_ELR_ON, (1,), "kafka_4_0", code=_4_0, by_code=True),
    VersionRules(_ELR_ON, (1,), "kafka_4_2", by_code=True),
    *(
        VersionRules(range(12, 30), (None, 0), "kafka_4_3_elr_off", code=c, by_code=True)
        for c in (_4_3, _4_4)
    ),
    *(VersionRules(range(23, 30), (1,), "kafka_4_3", code=c, by_code=True) for c in (_4_3, _4_4)),
    # Before 3.6-IV0 an ISR shrink bumps the leader epoch; 4.0-IV1 is the first version with an ELR.
    VersionRules(range(12), (None, 0, 1), "before_kip_841", code=_BEFORE_ELR),
    VersionRules(range(12, 23), (None, 0, 1), "before_kip_966", code=_BEFORE_ELR),
    # 4.2: the level of the ELR feature alone decides.
    VersionRules(range(29, 30), (None, 0), "kafka_4_2_elr_off"),
    VersionRules(range(29, 30), (1,), "kafka_4_2"),
    VersionRules(range(30, 34), (None, 0), "kafka_4_3_elr_off", code=_4_4),
    VersionRules(range(30, 34), (1,), "kafka_4_3", code=_4_4),
    # The log does not show the code of 4.0 or 4.1, or it is 4.1 with the ELR on; or the code is later than 4.4.
    VersionRules(range(23, ANY), (None, 0), "kafka_4_2_elr_off", stands_in=True),
    VersionRules(range(23, ANY), (1,), "kafka_4_2", stands_in=True),
)
"""The first entry that matches both feature levels, and ``by_code``, applies. An ELR level above 1 is treated as 1."""
_KNOWN = [version for version in VERSIONS if not version.stands_in]
NEWEST = {
    METADATA_VERSION: max(version.metadata[-1] for version in _KNOWN),
    ELR_VERSION: max(level or 0 for version in _KNOWN for level in version.elr),
}
"""The newest feature levels that a profile covers."""
RELEASES = {
    20: "3.8-IV0", 21: "3.9-IV0", 22: "4.0-IV0", 23: "4.0-IV1", 24: "4.0-IV2", 25: "4.0-IV3", 26: "4.1-IV0",
    27: "4.1-IV1", 28: "4.2-IV0", 29: "4.2-IV1", 30: "4.3-IV0", 31: "4.4-IV0", 32: "4.4-IV1", 33: "4.4-IV2",
}  # fmt: skip
"""Kafka's names of the newer levels of metadata.version."""


def rules_at(
    features: Mapping[str, int],
    profile: str | None = None,
    switched: Mapping[str, bool] | None = None,
    controllers: Controllers | None = None,
) -> RuleSet:
    """The rules at these feature levels; ``profile`` and ``switched`` override them.

    Raises LanguageError for a profile or rule that does not exist.
    """
    return rule_set(profile or _version(features, controllers or {}).profile, switched)


def newer_than_profiles(features: Mapping[str, int], controllers: Controllers) -> str | None:
    """The reason why no profile covers these features; None if a profile does.

    The feature levels that ``controllers`` support tell which version of Kafka decided. A newer version can decide
    differently at the same levels, and an unknown feature can change decisions.
    """
    supported: dict[str, int] = {}
    for levels in controllers.values():
        for name, at in levels.items():
            supported[name] = max(at, supported.get(name, at))
    level, elr = features.get(METADATA_VERSION, SUPPOSED_VERSION), features.get(ELR_VERSION)
    version = _version(features, controllers)
    newest = f"the newest is of metadata.version {_named(NEWEST[METADATA_VERSION])}"
    newer = f"is newer than any profile; {newest}"
    if level > NEWEST[METADATA_VERSION]:
        return f"metadata.version {_named(level)} {newer}"
    if (elr or 0) > NEWEST[ELR_VERSION]:
        return f"{ELR_VERSION} {elr} with metadata.version {_named(level)} {newer}"
    if version.stands_in:
        return f"{ELR_VERSION} {elr or 0} with metadata.version {_named(level)} has no profile; {newest}"
    for name, known in version.code:
        if supported.get(name, 0) > known:
            than = "any profile" if supported[name] > NEWEST[name] else f"the profiles of {_named(level)}"
            return f"a controller that supports {name} up to {supported[name]} is newer than {than}; {newest}"
    others = sorted(
        name
        for name, at in features.items()
        if at > 0 and name not in (METADATA_VERSION, ELR_VERSION) and name not in OTHER_FEATURES
    )
    return f"a feature that is not known: {others[0]}" if others else None


def _named(level: int) -> str:
    return f"{level} ({RELEASES[level]})" if level in RELEASES else str(level)


def _version(features: Mapping[str, int], controllers: Controllers) -> VersionRules:
    level, elr = features.get(METADATA_VERSION, SUPPOSED_VERSION), features.get(ELR_VERSION)
    level, elr = min(max(level, 0), ANY - 1), None if elr is None else min(max(elr, 0), 1)

    def is_of(version: VersionRules) -> bool:
        if level not in version.metadata or elr not in version.elr:
            return False
        codes = [
            tuple((name, levels.get(name, 0)) for name, _ in version.code) for levels in controllers.values()
        ]
        return not version.by_code or (bool(codes) and all(code == version.code for code in codes))

    return next(version for version in VERSIONS if is_of(version))


# --- rules about brokers' logs, on Python values -------------------------------------------------------------


class LazyRule:
    """A boolean rule of the model as a function with keyword arguments, traced on its first call."""

    def __init__(self, rule: Callable[..., Truth], **inputs: Type) -> None:
        self._rule, self._inputs = rule, inputs

    @cached_property
    def _function(self) -> Function:
        return Function(self._rule, **self._inputs)

    def __call__(self, **values: Any) -> bool:
        """The rule's value for these arguments. Raises ValueError if an argument is outside its type."""
        answer: bool = self._function(**values)
        return answer


def _is_clean(partition: StructValue, leader: Number) -> Truth:
    return elections.is_clean(elections.electable(partition), leader)


_COUNT = Int(0, MAX_INT)
_OFFSET = Int(-1, MAX_LONG)
"""-1 is an unknown offset."""
_LOG = Struct("ReplicaLog", last_epoch=Option(Int(0, MAX_INT)), end=_OFFSET)
_ONE = Index("broker", 1)
"""A cluster of one broker."""

is_held = LazyRule(logs.is_held, end=_OFFSET, hwm=_OFFSET)
end_is_told = LazyRule(logs.end_is_told, hwm=_OFFSET, epoch_start=_OFFSET)
hwm_never_moves_back = LazyRule(statements.hwm_never_moves_back.function, before=_OFFSET, after=_OFFSET)
hwm_stands_under_min_isr = LazyRule(
    observed.hwm_stands_under_min_isr.function, isr_size=_COUNT, min_isr=_COUNT
)
hwm_waits_for_isr = LazyRule(observed.hwm_waits_for_isr.function, leo=_OFFSET, hwm=_OFFSET)
isr_joined_caught_up = LazyRule(
    observed.isr_joined_caught_up.function, leo=_OFFSET, hwm=_OFFSET, epoch_start=_OFFSET
)
leader_answers_in_its_epoch = LazyRule(
    statements.leader_answers_in_its_epoch.function, requested=_OFFSET, leads=_OFFSET
)
stale_epochs_are_refused = LazyRule(statements.stale_epochs_are_refused.function, sent=_OFFSET, known=_OFFSET)
proposals_name_fetched_epochs = LazyRule(
    statements.proposals_name_fetched_epochs.function, named=_OFFSET, fetched=_OFFSET
)
one_proposal_is_under_way = LazyRule(statements.one_proposal_is_under_way.function, under_way=_COUNT)
acknowledged_has_copies = LazyRule(
    statements.acknowledged_has_copies.function, hwm=_OFFSET, offset=_OFFSET, copies=_COUNT, min_isr=_COUNT
)
is_better_log = LazyRule(logs.is_better_log, theirs=_LOG, mine=_LOG)
_clean = LazyRule(_is_clean, partition=Struct("Partition", isr=SetOf(_ONE), elr=SetOf(_ONE)), leader=_ONE)


def is_clean(in_isr: bool, in_elr: bool) -> bool:
    """966.13. True if an election is clean: the elected broker was in the ISR or the ELR before the election."""
    broker = (0,)
    return _clean(partition={"isr": broker * in_isr, "elr": broker * in_elr}, leader=0)
