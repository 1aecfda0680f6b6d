"""Generated pages, told from the kept answers, once a process."""

from __future__ import annotations

from functools import cache

from docs.pages import kept, site


@cache
def generated(name: str) -> str:
    """A generated page; raises NotKeptError if a model has changed since its answers were kept."""
    with kept.in_mode(kept.Mode.ONLY_KEPT):
        return site.generated(name)
