"""Paths of files in as few words as tell them apart."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

KEPT = 2
"""So many parts at the end of a path are always said: a broker's directory and the file."""


def apart(paths: Iterable[str]) -> dict[str, str]:
    """Each path without the leading directories that all of them share.

    Of each at least its last KEPT parts are left.
    """
    parts = {path: PurePath(path).parts for path in paths}
    shared = 0
    for at in zip(*parts.values(), strict=False):
        if len(set(at)) > 1:
            break
        shared += 1
    return {path: "/".join(p[max(0, min(shared, len(p) - KEPT)) :]).lstrip("/") for path, p in parts.items()}


__all__ = ["KEPT", "apart"]
