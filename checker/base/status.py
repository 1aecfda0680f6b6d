"""How the command ends: the exit statuses, and which of several counts."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class Status(IntEnum):
    """The exit statuses of every command."""

    AS_PROMISED = 0
    VIOLATED = 1
    BAD_REQUEST = 2
    INCONCLUSIVE = 3
    INTERNAL = 70
    """The checker contradicts itself; nothing is said of what was asked. It is the status of sysexits for that."""
    INTERRUPTED = 130


_WORST_FIRST = (
    Status.INTERNAL,
    Status.BAD_REQUEST,
    Status.INTERRUPTED,
    Status.VIOLATED,
    Status.INCONCLUSIVE,
    Status.AS_PROMISED,
)


def worst(statuses: Iterable[Status]) -> Status:
    """The status of a run of several scenarios: interrupted before violated before inconclusive."""
    return min(statuses, key=_WORST_FIRST.index, default=Status.AS_PROMISED)
