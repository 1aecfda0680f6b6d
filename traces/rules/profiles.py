"""The rules to replay with, from a profile and switches, or from a metadata log's features.

The module also has the rules about brokers' logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from highwater.invariants import statements
from highwater.invariants.replication import observed
from highwater.model.language import Index, Int, Option, Struct
from highwater.model.language.function import Function
from highwater.model.language.protocol import rules_on
from highwater.model.language.types import Set as SetOf
from highwater.model.language.types import Type
from highwater.model.language.values import Number, StructValue, Truth
from highwater.model.replication import logs
from highwater.model.replication.controller import Controller, elections
from highwater.model.replication.controller.types import MAX_INT, MAX_LONG


@dataclass(frozen=True)
class RuleSet:
    """A set of rules: the profile's name, and the rules that are on after all switches."""

    profile: str
    rules: frozenset[str]


def rule_set(
    profile: str, switched: Mapping[str, bool] | None = None, also_on: Iterable[str] = ()
) -> RuleSet:
    """The rules of a profile and those in ``also_on``; ``switched`` overrides both.

    Raises ChoiceError for a profile or a rule that does not exist.
    """
    return RuleSet(profile, rules_on(Controller, profile, dict.fromkeys(also_on, True), switched or {}))


METADATA_VERSION = "metadata.version"
ELR_VERSION = "eligible.leader.replicas.version"
OTHER_FEATURES = frozenset(
    {"kraft.version", "transaction.version", "group.version", "share.version", "streams.version"}
)
"""Features that do not affect replicas and leaders."""
SUPPOSED_VERSION = 23
"""The assumed metadata.version of a log that does not record metadata.version."""
ANY = 1 << 15
"""A number above every feature level."""

Controllers = Mapping[int, Mapping[str, int]]
"""The highest feature levels that each controller has reported as supported, by controller id."""
Profiles = tuple[tuple[str, tuple[str, ...]], ...]
"""Names of profiles, each with additional rules that are on; the likeliest first."""


@dataclass(frozen=True)
class VersionRules:
    """Feature levels, and the possible profiles at these levels.

    - ``metadata``: levels of metadata.version.
    - ``elr``: levels of eligible.leader.replicas.version; None is a log without the feature.
    - ``stands_in``: True if no profile covers these levels; ``profiles`` are then the closest ones.
    - ``code``: the highest levels that the modelled Kafka code supports. Newer code can decide differently.
    - ``by_code``: the entry applies only if every controller reports exactly the levels in ``code`` as supported.
    """

    metadata: range
    elr: tuple[int | None, ...]
    profiles: Profiles
    stands_in: bool = False
    code: tuple[tuple[str, int], ...] = ((METADATA_VERSION, 25), (ELR_VERSION, 0))
    by_code: bool = False


_CLEAN = ("clean_registration",)
_4_2_CODE = ((METADATA_VERSION, 29), (ELR_VERSION, 1))
_4_2: Profiles = (("kafka_4_2", ()),)
_4_2_OFF: Profiles = (("kafka_4_2_elr_off", ()),)
_ON: Profiles = (("kafka_trunk_2024_10", ()), ("kafka_trunk_2024_10", _CLEAN))
_OFF: Profiles = (("kafka_trunk_2024_10_elr_off", ()), ("kafka_trunk_2024_10_elr_off", _CLEAN))

VERSIONS = (
    # Kafka 4.2.1 with lower feature levels: the levels decide only about ELR.
    VersionRules(range(12, 29), (None, 0), _4_2_OFF, code=_4_2_CODE, by_code=True),
    VersionRules(range(23, 29), (1,), _4_2, code=_4_2_CODE, by_code=True),
    # Before 3.6-IV0 an ISR shrink bumps the leader epoch; 4.0-IV1 is the first version with an ELR.
    VersionRules(range(12), (None, 0, 1), (("before_kip_841", ()),)),
    VersionRules(range(12, 23), (None, 0, 1), (("before_kip_966", ()),)),
    # Before ELR had a feature, a setting that is not in the log enabled ELR.
    VersionRules(range(23, 26), (None,), (("kafka_trunk_2024_10", ()), ("kafka_trunk_2024_10_elr_off", ()))),
    # 4.2: the level of the ELR feature alone decides.
    VersionRules(range(29, 30), (None, 0), _4_2_OFF, code=_4_2_CODE),
    VersionRules(range(29, 30), (1,), _4_2, code=_4_2_CODE),
    # 4.0: the broker's request shows a clean restart. No profile covers 4.0 or 4.1.
    VersionRules(range(23, 26), (None, 0), _OFF, stands_in=True),
    VersionRules(range(23, 26), (1,), _ON, stands_in=True),
    VersionRules(range(26, ANY), (None, 0), _4_2_OFF, stands_in=True, code=_4_2_CODE),
    VersionRules(range(26, ANY), (1,), _4_2, stands_in=True, code=_4_2_CODE),
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
    27: "4.1-IV1", 28: "4.2-IV0", 29: "4.2-IV1", 30: "4.3-IV0",
}  # fmt: skip
"""Kafka's names of the newer levels of metadata.version."""


def rule_sets(
    features: Mapping[str, int],
    profile: str | None = None,
    switched: Mapping[str, bool] | None = None,
    controllers: Controllers | None = None,
) -> tuple[RuleSet, ...]:
    """The possible sets of rules at these feature levels, the likeliest first.

    There can be several, because a log does not show everything. In old versions a setting outside the log enabled ELR,
    and only some versions recognize a clean restart. ``profile`` and ``switched`` override the features. Raises
    LanguageError for a profile or rule that does not exist.
    """
    found: list[RuleSet] = []
    for name, also_on in [(profile, ())] if profile else _version(features, controllers or {}).profiles:
        chosen = rule_set(name, switched, also_on)
        if all(chosen.rules != known.rules for known in found):
            found.append(chosen)
    return tuple(found)


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


# --- the sets that explain a log ----------------------------------------------------------------------------


class Narrowed(NamedTuple):
    """A note that only some of the possible sets of rules explain a partition's changes up to ``offset``.

    ``tags`` are indices of these sets in ``Agreement.versions[version]``. ``partition`` is empty for a broker's
    registration.
    """

    version: int
    offset: int
    partition: str
    tags: frozenset[int]
    time: int


class Disagreement(NamedTuple):
    """The partition at which no set of rules explains all partitions so far.

    ``at`` is the narrowing for this partition, ``this`` are the profiles that explain it. ``others`` are the profiles
    that explain the earlier partitions, since the last disagreement or change of the features.
    """

    at: Narrowed
    others: list[str]
    this: list[str]


class Agreement:
    """Finds the sets of rules that explain all partitions of a log so far (the remaining sets).

    ``versions`` has the possible sets of rules after each change of the features, the likeliest first.
    """

    def __init__(self, sets: tuple[RuleSet, ...]) -> None:
        self.versions = [sets]
        self._narrowed: list[Narrowed] = []
        self._version = 0
        self._left: Set[int] = frozenset(range(len(sets)))

    @property
    def sets(self) -> tuple[RuleSet, ...]:
        """The possible sets of rules at the present feature levels."""
        return self.versions[-1]

    def renew(self, sets: tuple[RuleSet, ...]) -> None:
        """Replace the possible sets of rules, after a change of the features."""
        self.versions.append(sets)

    def narrow(self, offset: int, partition: str, tags: frozenset[int], time: int) -> None:
        """Record that only the sets with the indices ``tags`` explain a partition."""
        self._narrowed.append(Narrowed(len(self.versions) - 1, offset, partition, tags, time))

    def settle(self) -> Iterator[Disagreement]:
        """Apply the recorded narrowings in the order of offsets; yield a Disagreement if no set of rules remains.

        After a Disagreement, the narrowing's own sets are the remaining sets.
        """
        recorded, self._narrowed = self._narrowed, []
        recorded.sort(key=lambda n: n[:3])
        for said in recorded:
            self._reach(said.version)
            left = self._left & said.tags
            if not left:
                sets = self.versions[said.version]
                yield Disagreement(said, _profiles(sets, self._left), _profiles(sets, said.tags))
            self._left = left or said.tags

    def chosen(self) -> RuleSet:
        """The likeliest remaining set of rules, after all narrowings."""
        self._reach(len(self.versions) - 1)
        return self.sets[min(self._left)]

    def _reach(self, version: int) -> None:
        if version != self._version:
            self._version, self._left = version, frozenset(range(len(self.versions[version])))


def _profiles(sets: tuple[RuleSet, ...], tags: Set[int]) -> list[str]:
    return [sets[tag].profile for tag in sorted(tags)]


# --- rules about brokers' logs, on Python values -------------------------------------------------------------


class AskedRule:
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

is_held = AskedRule(logs.is_held, end=_OFFSET, hwm=_OFFSET)
end_is_told = AskedRule(logs.end_is_told, hwm=_OFFSET, epoch_start=_OFFSET)
hwm_never_moves_back = AskedRule(statements.hwm_never_moves_back.function, before=_OFFSET, after=_OFFSET)
hwm_stands_under_min_isr = AskedRule(
    observed.hwm_stands_under_min_isr.function, isr_size=_COUNT, min_isr=_COUNT
)
hwm_waits_for_isr = AskedRule(observed.hwm_waits_for_isr.function, leo=_OFFSET, hwm=_OFFSET)
isr_joined_caught_up = AskedRule(
    observed.isr_joined_caught_up.function, leo=_OFFSET, hwm=_OFFSET, epoch_start=_OFFSET
)
leader_answers_in_its_epoch = AskedRule(
    statements.leader_answers_in_its_epoch.function, asked=_OFFSET, leads=_OFFSET
)
stale_epochs_are_refused = AskedRule(
    statements.stale_epochs_are_refused.function, sent=_OFFSET, known=_OFFSET
)
proposals_name_fetched_epochs = AskedRule(
    statements.proposals_name_fetched_epochs.function, named=_OFFSET, fetched=_OFFSET
)
one_proposal_is_under_way = AskedRule(statements.one_proposal_is_under_way.function, under_way=_COUNT)
acknowledged_has_copies = AskedRule(
    statements.acknowledged_has_copies.function, hwm=_OFFSET, offset=_OFFSET, copies=_COUNT, min_isr=_COUNT
)
is_better_log = AskedRule(logs.is_better_log, theirs=_LOG, mine=_LOG)
_clean = AskedRule(_is_clean, partition=Struct("Partition", isr=SetOf(_ONE), elr=SetOf(_ONE)), leader=_ONE)


def is_clean(in_isr: bool, in_elr: bool) -> bool:
    """966.13. True if an election is clean: the elected broker was in the ISR or the ELR before the election."""
    broker = (0,)
    return _clean(partition={"isr": broker * in_isr, "elr": broker * in_elr}, leader=0)
