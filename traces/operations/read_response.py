"""The response to an operation."""

from __future__ import annotations

from typing import Any

from highwater.traces.operations.format import ANY_TEXT
from highwater.traces.reading.fields import INT64, Fields, Place


def read_response(place: Place, value: Any) -> dict[str, Any]:
    """A response, of whatever kind, with its types checked. Raises TraceError.

    The members of an ISR are sorted, and results are by the name of the partition: their order says nothing.
    """
    known = (
        "brokerEpoch", "exception", "message", "isCaughtUp", "isFenced", "inControlledShutdown", "shouldShutDown",
        "leaderId", "leaderEpoch", "isr", "partitionEpoch", "leaderRecoveryState", "results", "topicId",
        "removed", "what", "again", "causesFailover",
    )  # fmt: skip
    f = Fields(place, value, (), known)
    found: dict[str, Any] = {}
    for name in value:
        if name == "removed":
            found[name] = _removed(place.at(name), f.raw(name))
        elif name in (
            "again",
            "causesFailover",
            "isCaughtUp",
            "isFenced",
            "inControlledShutdown",
            "shouldShutDown",
        ):
            found[name] = f.flag(name)
        elif name in ("brokerEpoch", "leaderId", "leaderEpoch", "partitionEpoch"):
            found[name] = f.number(name, -1, INT64)
        elif name == "isr":
            found[name] = sorted(f.numbers(name, -1))
        elif name == "results":
            found[name] = _results(f)
        elif name == "message":
            f.text(name)
            found[name] = ANY_TEXT
        else:
            found[name] = f.text(name)
    return found


def _removed(place: Place, value: Any) -> dict[str, int] | None:
    if value is None:
        return None
    f = Fields(place, value, ("id", "epoch"))
    return {"id": f.number("id"), "epoch": f.number("epoch", -INT64, INT64)}


def _results(f: Fields) -> dict[str, str]:
    found: dict[str, str] = {}
    for place, item in f.items("results"):
        result = Fields(place, item, ("topic", "partition", "error"))
        name = f"{result.text('topic')}-{result.number('partition')}"
        if name in found:
            raise place.wrong("a second result for a partition")
        found[name] = result.text("error")
    return found


__all__ = ["read_response"]
