"""Log directories (KIP-858) by their identifiers; what is online, and where a new replica is, the rules say."""

from __future__ import annotations

from collections.abc import Collection

from highwater.traces.rules.decisions import is_online as _is_online
from highwater.traces.rules.decisions import names_default

MIGRATING, UNASSIGNED, LOST = (f"AAAAAAAAAAAAAAAAAAAAA{last}" for last in "AQg")
"""Identifiers that name no directory: of a version without them, of a replica in none yet, and in a lost one."""
_RESERVED = {MIGRATING: "MIGRATING", UNASSIGNED: "UNASSIGNED", LOST: "LOST"}


def is_online(directory: str, listed: Collection[str]) -> bool:
    """Whether a replica's directory is online, by the directories that its broker lists."""
    return _is_online(_RESERVED.get(directory, "NAMED"), directory in listed, bool(listed))


def default_directory(listed: Collection[str] | None) -> str:
    """The directory of a new replica, by those that its broker lists; None for a broker that is not registered."""
    if listed is None:
        return UNASSIGNED
    if not listed:
        return MIGRATING
    return next(iter(listed)) if names_default(len(listed)) else UNASSIGNED
