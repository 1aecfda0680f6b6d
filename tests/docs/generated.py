"""Generated pages, built once per process from cached search results."""

from __future__ import annotations

from functools import cache

from docs.pages import kept, site


@cache
def generated(name: str) -> str:
    """A generated page. Raises NotKeptError if a model has changed since its results were cached."""
    with kept.in_mode(kept.Mode.ONLY_KEPT):
        return site.generated(name)
