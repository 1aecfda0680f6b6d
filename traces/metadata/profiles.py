"""Which rules were in force, as far as a metadata log's feature records say."""

from __future__ import annotations

from collections.abc import Mapping

from highwater.traces.rules import RuleSet, rule_set

METADATA_VERSION = "metadata.version"
ELR_VERSION = "eligible.leader.replicas.version"
LEVEL_3_6_IV0, LEVEL_4_0_IV1 = 12, 23
"""Feature levels of metadata.version: from the first an ISR shrink keeps the leader epoch, the second knows ELR."""


def rule_sets(
    features: Mapping[str, int], profile: str | None = None, switched: Mapping[str, bool] | None = None
) -> tuple[RuleSet, ...]:
    """The sets of rules that can have been in force with these features, the likelier first.

    Kafka before its feature ``eligible.leader.replicas.version`` turned ELR on by a setting that is not in the log,
    and later versions know a clean restart by what the broker sends, so several can come into question. ``profile``
    and ``switched`` override. Raises LanguageError for a profile or rule that does not exist.
    """
    found: list[RuleSet] = []
    for name, also_on in [(profile, ())] if profile else _called_for(features):
        chosen = rule_set(name, switched, also_on)
        if all(chosen.rules != known.rules for known in found):
            found.append(chosen)
    return tuple(found)


def _called_for(features: Mapping[str, int]) -> list[tuple[str, tuple[str, ...]]]:
    version = features.get(METADATA_VERSION, LEVEL_4_0_IV1)
    if version < LEVEL_3_6_IV0:
        return [("before_kip_841", ())]
    if version < LEVEL_4_0_IV1:
        return [("before_kip_966", ())]
    level = features.get(ELR_VERSION)
    if level is None:
        return [("kafka_trunk_2024_10", ()), ("kafka_trunk_2024_10_elr_off", ())]
    clean = ("clean_registration",)
    if level >= 1:
        return [("kafka_trunk_2024_10", ()), ("kafka_trunk_2024_10", clean)]
    return [("kafka_trunk_2024_10_elr_off", ()), ("kafka_trunk_2024_10_elr_off", clean)]


__all__ = ["ELR_VERSION", "METADATA_VERSION", "rule_sets"]
