"""Where the exploration starts: all brokers run and know everything, and the first replica leads, or any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from highwater.model.replication import levels

if TYPE_CHECKING:
    from highwater.model.replication.cluster import Cluster


def initial_state(m: Cluster, first: int = 0) -> dict[str, Any]:
    """Logs are empty, or the ISR holds the first ``initial_records`` records, committed and acknowledged.

    That state is among those that a start with empty logs leads to; a scenario that is about what comes after it begins
    there. Where the ISR is under min ISR nothing can be committed, and logs are empty.
    """
    p = m.p
    replicas, isr = list(range(m.factor)), list(range(min(p.initial_isr, m.factor)))
    count = committed_at_start(m)
    records = [{"value": value, "epoch": 0} for value in range(count)]
    nothing = [None] * p.brokers
    broker = {
        "status": "RUNNING",
        "epoch": 0,
        "log": [],
        "flushed": 0,
        "hwm": 0,
        "view": _view(m, first, replicas, isr),
        "leso": 0,
        "proposed": None,
        "followers": _followers(m, first, isr, None),
        "ahead": False,
        "proposed_epochs": nothing,
    }
    complete = {**broker, "log": records, "hwm": count}
    brokers = [complete if b in isr else broker for b in range(p.brokers)]
    brokers[first] = {**complete, "followers": _followers(m, first, isr, count if count else None)}
    registration = {"registered": True, "epoch": 0, "fenced": False, "in_controlled_shutdown": False}
    return {
        "registrations": [registration] * p.brokers,
        "partition": {**m.t.initial_partition(replicas, isr), "leader": first},
        "min_insync_replicas": p.min_isr,
        "brokers": brokers,
        "fetch_requests": nothing,
        "fetch_responses": nothing,
        "alter_requests": nothing,
        "alter_responses": nothing,
        "writes": ["ACKNOWLEDGED"] * count + ["UNUSED"] * (p.records - count),
        "committed": records,
        **levels.initial(m),
        "late_fetches": nothing,
        "metadata": nothing,
        "log_infos_sent": nothing,
        "log_infos": nothing,
        "late_proposals": nothing,
        "former": None,
        "waiting": [None] * p.records,
    }


def committed_at_start(m: Cluster) -> int:
    """How many records are committed at the start: none where the ISR is under min ISR then."""
    p = m.p
    enough = min(p.initial_isr, m.factor) >= min(p.min_isr, m.factor)
    return min(p.initial_records, p.records) if enough else 0


def _view(m: Cluster, first: int, replicas: list[int], isr: list[int]) -> dict[str, Any]:
    """The metadata that every broker has."""
    return {
        "leader": first,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "isr": isr,
        "replicas": replicas,
        "removing": [],
        "min_isr": m.p.min_isr,
        "active": range(m.p.brokers),
        "epochs": [0] * m.p.brokers,
    }


def _followers(m: Cluster, first: int, isr: list[int], leo: int | None) -> list[dict[str, Any]]:
    """What a broker knows of its followers; ``leo`` is that of the ISR's, where they have fetched from it."""
    unheard = {"leo": None, "broker_epoch": 0, "in_epoch": False}
    heard = {**unheard, "leo": leo, "in_epoch": leo is not None}
    return [
        {**(heard if f in isr and f != first else unheard), "caught_up": f in isr} for f in range(m.p.brokers)
    ]
