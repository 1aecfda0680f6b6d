"""What a log says that the controller accepted: settings, levels of features, and brokers that support them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from highwater.traces.metadata.beliefs.evidence import MAX_BROKERS
from highwater.traces.metadata.image.image import BROKER, TOPIC
from highwater.traces.metadata.tracker import Tracker
from highwater.traces.reports.settings import MIN_ISR
from highwater.traces.rules.decisions import decisions, zero
from highwater.traces.rules.profiles import ELR_VERSION

Supported = Mapping[str, tuple[int, int]]
"""The least and the greatest level of each feature that a broker supports."""
Differences = dict[str, tuple[Any, Any]]


def supported_by(data: Mapping[str, Any]) -> Supported:
    """The levels of features in a record that registers a broker; a record without any does not say."""
    return {f["name"]: (f["minSupportedVersion"], f["maxSupportedVersion"]) for f in data["features"]}


def without(supported: Supported, levels: Iterable[tuple[str, int]]) -> list[str]:
    """The features whose level a broker does not support; of one that it does not list it supports 0 alone."""
    return [
        name
        for name, level in levels
        if supported and not supported.get(name, (0, 0))[0] <= level <= supported.get(name, (0, 0))[1]
    ]


def creation(tracker: Tracker, replicas: Sequence[int]) -> Differences:
    """B8. What stands against the creation of a partition with these replicas."""
    order = list(dict.fromkeys(replicas))
    if not order or len(replicas) > MAX_BROKERS:
        return {}
    flags = [tracker.image.flags(broker).to_plain() for broker in order]
    size = len(replicas)
    nobody = tracker.image.flags(-1).to_plain()
    found = decisions(size, _rules(tracker)[0]).new_partition_checks(
        replicas=[order.index(broker) for broker in replicas],
        registrations=[*flags, *[nobody] * (size - len(flags))],
        factor=size,
    )
    verdict = found["checks"]
    return {} if verdict.answer == "NONE" else {"replicas": (verdict.refused_by[0], list(replicas))}


def registration(tracker: Tracker, supported: Supported) -> Differences:
    """584.1. The finalized features that stand against the registration of a broker."""
    levels = tracker.image.features
    lacking = without(supported, ((name, level) for name, level in levels.items() if level))
    if not lacking or not _refuses_registration(tracker):
        return {}
    return {f"support of {name}": (levels[name], _range(supported.get(name, (0, 0)))) for name in lacking}


def _refuses_registration(tracker: Tracker) -> bool:
    """Whether the rules refuse a broker for a feature; asked with a broker that nothing else stands against."""

    def answer(rules: frozenset[str]) -> str:
        known = decisions(1, rules)
        found = known.register(
            registrations=[zero(known.t.registration)],
            sessions=[zero(known.t.session)],
            now_ms=0,
            timeout_ms=0,
            broker=0,
            same_incarnation=False,
            previous_broker_epoch=-1,
            request_version=4,
            features_supported=False,
            new_epoch=0,
        )
        return str(found["checks"].answer)

    return all(answer(rules) != "NONE" for rules in _rules(tracker))


def level(tracker: Tracker, name: str, before: int, now: int) -> Differences:
    """584.1. The brokers that stand against another level of a feature."""
    brokers = tracker.image.brokers
    against = [broker for broker, known in brokers.items() if without(known.supported, [(name, now)])]
    if not against or any(_feature(rules, before, now, False) == "NONE" for rules in _rules(tracker)):
        return {}
    return {f"broker {b}": (now, _range(brokers[b].supported.get(name, (0, 0)))) for b in sorted(against)}


def _feature(rules: frozenset[str], before: int, now: int, supported: bool) -> str:
    """The answer to a change of a feature's level, asked for as what it is."""
    asked = "UPGRADE" if now > before else "UNSAFE_DOWNGRADE"
    found = decisions(1, rules).feature(
        current=before,
        level=now,
        upgrade=asked,
        supported=supported,
        cluster_has_min_isr=True,
        broker_has_min_isr=False,
    )
    return str(found["checks"].answer)


def min_isr(tracker: Tracker, kind: int, resource: str, removes: bool) -> str | None:
    """K15. Which check refuses a setting of min.insync.replicas that has a value that it can have; None: none does."""
    of = "TOPIC" if kind == TOPIC else "BROKER" if resource else "CLUSTER"
    verdicts = [
        decisions(1, rules).min_isr_checks(resource=of, removes=removes, valid=True)["checks"]
        for rules in _rules(tracker)
    ]
    if any(verdict.answer == "NONE" for verdict in verdicts):
        return None
    return str(verdicts[0].refused_by[0])


def unsafe(tracker: Tracker) -> Differences:
    """K15. What eligible.leader.replicas.version, as it is now, has to go with in the settings, and does not."""
    image = tracker.image
    now = image.features.get(ELR_VERSION, 0)
    of_cluster = MIN_ISR in image.configs.get((BROKER, ""), {})
    own = [
        name for (kind, name), found in image.configs.items() if kind == BROKER and name and MIN_ISR in found
    ]
    verdicts = [
        decisions(1, rules).feature(
            current=0,
            level=now,
            upgrade="UPGRADE",
            supported=True,
            cluster_has_min_isr=of_cluster,
            broker_has_min_isr=bool(own),
        )
        for rules in _rules(tracker)
    ]
    found: Differences = {}
    if all(verdict["writes_cluster"] for verdict in verdicts):
        found[f"{MIN_ISR} of the cluster"] = ("written", "not written")
    if all(verdict["removes_broker"] for verdict in verdicts):
        found |= {f"{MIN_ISR} of broker {name}": ("removed", "not removed") for name in own}
    return found


def _rules(tracker: Tracker) -> tuple[frozenset[str], ...]:
    return tuple(found.rules for found in tracker.agreement.sets)


def _range(levels: tuple[int, int]) -> str:
    return f"{levels[0]} to {levels[1]}"
