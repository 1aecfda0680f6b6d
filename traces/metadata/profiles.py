"""Which rules were in force, as far as a metadata log's feature records say; and where no profile has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from highwater.traces.rules import RuleSet, rule_set

METADATA_VERSION = "metadata.version"
ELR_VERSION = "eligible.leader.replicas.version"
OTHER_FEATURES = frozenset(
    {"kraft.version", "transaction.version", "group.version", "share.version", "streams.version"}
)
"""Features that do not decide about replicas and leaders."""
SUPPOSED_VERSION = 23
"""The metadata.version that is supposed where the log does not say any."""
ANY = 1 << 15
"""Beyond every feature level."""

Profiles = tuple[tuple[str, tuple[str, ...]], ...]
"""Profiles, each with the rules that are on in addition; the likelier first."""


@dataclass(frozen=True)
class Version:
    """Feature levels, and the rules that were in force with them.

    ``metadata`` are levels of metadata.version. ``elr`` are levels of eligible.leader.replicas.version, None among them
    for a log that does not have the feature. ``stands_in``: no profile is of these versions, the nearest one stands in.
    """

    metadata: range
    elr: tuple[int | None, ...]
    profiles: Profiles
    stands_in: bool = False


_CLEAN = ("clean_registration",)
_ON: Profiles = (("kafka_trunk_2024_10", ()), ("kafka_trunk_2024_10", _CLEAN))
_OFF: Profiles = (("kafka_trunk_2024_10_elr_off", ()), ("kafka_trunk_2024_10_elr_off", _CLEAN))

VERSIONS = (
    # Before 3.6-IV0 an ISR shrink bumps the leader epoch; 4.0-IV1 is the first that knows an ELR.
    Version(range(12), (None, 0, 1), (("before_kip_841", ()),)),
    Version(range(12, 23), (None, 0, 1), (("before_kip_966", ()),)),
    # Before there was a feature for it, ELR was turned on by a setting that is not in the log.
    Version(range(23, 26), (None,), (("kafka_trunk_2024_10", ()), ("kafka_trunk_2024_10_elr_off", ()))),
    # 4.0 and later: the feature alone decides, and a clean restart is known by what the broker sends. 4.2.1 is known.
    Version(range(29, 30), (None, 0), (("kafka_4_2_elr_off", ()),)),
    Version(range(29, 30), (1,), (("kafka_4_2", ()),)),
    Version(range(23, ANY), (None, 0), _OFF, stands_in=True),
    Version(range(23, ANY), (1,), _ON, stands_in=True),
)
"""The first that has both levels counts; of a level of the ELR's feature above 1, that of 1 stands in."""
_NEWEST_VERSION = next(v for v in reversed(VERSIONS) if not v.stands_in)
NEWEST = {
    METADATA_VERSION: _NEWEST_VERSION.metadata[-1],
    ELR_VERSION: max(e or 0 for e in _NEWEST_VERSION.elr),
}
"""The newest feature levels that a profile is of."""
RELEASES = {
    20: "3.8-IV0", 21: "3.9-IV0", 22: "4.0-IV0", 23: "4.0-IV1", 24: "4.0-IV2", 25: "4.0-IV3", 26: "4.1-IV0",
    27: "4.1-IV1", 28: "4.2-IV0", 29: "4.2-IV1", 30: "4.3-IV0",
}  # fmt: skip
"""What Kafka calls the newer levels of metadata.version."""


def rule_sets(
    features: Mapping[str, int], profile: str | None = None, switched: Mapping[str, bool] | None = None
) -> tuple[RuleSet, ...]:
    """The sets of rules that can have been in force with these features, the likelier first.

    Kafka before its feature ``eligible.leader.replicas.version`` turned ELR on by a setting that is not in the log,
    and later versions know a clean restart by what the broker sends, so several can come into question. ``profile``
    and ``switched`` override. Raises LanguageError for a profile or rule that does not exist.
    """
    found: list[RuleSet] = []
    for name, also_on in [(profile, ())] if profile else _version(features).profiles:
        chosen = rule_set(name, switched, also_on)
        if all(chosen.rules != known.rules for known in found):
            found.append(chosen)
    return tuple(found)


def newer_than_profiles(features: Mapping[str, int], supported: Mapping[str, int]) -> str | None:
    """Why no profile is of these features; None where one is.

    ``supported`` are the greatest levels that a controller supports, which say which code decided: a newer one can
    decide otherwise whatever the features say. Also a feature that is not known can.
    """
    level, elr = features.get(METADATA_VERSION, SUPPOSED_VERSION), features.get(ELR_VERSION)
    newer = f"is newer than any profile; the newest is of metadata.version {_named(NEWEST[METADATA_VERSION])}"
    if level > NEWEST[METADATA_VERSION]:
        return f"metadata.version {_named(level)} {newer}"
    if (elr or 0) > 1 or _version(features).stands_in:
        return f"{ELR_VERSION} {elr} with metadata.version {_named(level)} {newer}"
    for name, newest in NEWEST.items():
        if supported.get(name, 0) > newest:
            return f"a controller that supports {name} up to {supported[name]} {newer}"
    others = sorted(
        name
        for name, at in features.items()
        if at > 0 and name not in (METADATA_VERSION, ELR_VERSION) and name not in OTHER_FEATURES
    )
    return f"a feature that is not known: {others[0]}" if others else None


def _named(level: int) -> str:
    return f"{level} ({RELEASES[level]})" if level in RELEASES else str(level)


def _version(features: Mapping[str, int]) -> Version:
    level, elr = features.get(METADATA_VERSION, SUPPOSED_VERSION), features.get(ELR_VERSION)
    level, elr = min(max(level, 0), ANY - 1), None if elr is None else min(max(elr, 0), 1)
    return next(v for v in VERSIONS if level in v.metadata and elr in v.elr)


__all__ = [
    "ELR_VERSION", "METADATA_VERSION", "NEWEST", "RELEASES", "VERSIONS", "Version", "newer_than_profiles", "rule_sets",
]  # fmt: skip
