"""Finalized features, and what eligible.leader.replicas.version asks of the configuration."""

from __future__ import annotations

from highwater.model.language import Enum
from highwater.model.language.checks import Checks
from highwater.model.language.values import Number, Truth
from highwater.model.replication.controller.types import Error, Terms

UpgradeType = Enum("UpgradeType", "UPGRADE SAFE_DOWNGRADE UNSAFE_DOWNGRADE")
Resource = Enum("Resource", "TOPIC CLUSTER BROKER")
"""What has a configuration: a topic, all brokers, or one broker."""


def feature_checks(
    t: Terms, current: Number, level: Number, upgrade: Number, supported: Truth | bool
) -> Checks:
    """584.1. Whether a feature can get another level; ``supported``: the controllers and every broker know it."""
    checks, wrong = Checks(Error.NONE, on=t.on), Error.INVALID_UPDATE_VERSION
    checks.check("every broker supports the level", supported, wrong, rule="finalized_features_check")
    checks.check(
        "a lower level is asked for as one", (level >= current) | (upgrade != UpgradeType.UPGRADE), wrong
    )
    checks.check(
        "a higher level is asked for as one", (level <= current) | (upgrade == UpgradeType.UPGRADE), wrong
    )
    return checks


def min_isr_checks(t: Terms, resource: Number, removes: Truth, valid: Truth | bool = True) -> Checks:
    """KIP-966 in Kafka 4.2. Whether min.insync.replicas can be set or removed; ``valid``: to a number above 0.

    The controller computes the ELR by it and the leader moves the HWM by it. Were it a broker's own, the two would
    go by different values, and the ELR would have members that lack committed records.
    """
    checks, wrong, one_for_all = Checks(Error.NONE, on=t.on), Error.INVALID_CONFIG, "min_isr_is_the_clusters"
    removes_the_clusters = removes & (resource == Resource.CLUSTER)
    checks.check("no broker has a min ISR of its own", resource != Resource.BROKER, wrong, rule=one_for_all)
    checks.check("the cluster's min ISR is not removed", ~removes_the_clusters, wrong, rule=one_for_all)
    checks.check("the value is a number above 0", valid, wrong)
    return checks


def writes_cluster_min_isr(t: Terms, level: Number, cluster_has_one: Truth) -> Truth:
    """KIP-966 in Kafka 4.2. Whether a change of eligible.leader.replicas.version writes the cluster's min ISR too."""
    return _makes_safe(t, level) & ~cluster_has_one


def removes_broker_min_isr(t: Terms, level: Number, broker_has_one: Truth) -> Truth:
    """KIP-966 in Kafka 4.2. Whether a change of eligible.leader.replicas.version removes a broker's min ISR."""
    return _makes_safe(t, level) & broker_has_one


def _makes_safe(t: Terms, level: Number) -> Truth:
    return (level > 0) & t.on("min_isr_is_the_clusters")
