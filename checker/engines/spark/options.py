"""What the Spark engine is asked beyond a search's own options."""

from __future__ import annotations

from dataclasses import dataclass

LOCAL = "local[*]"


@dataclass(frozen=True)
class SparkOptions:
    """Where the search runs and where its levels are kept.

    ``checkpoint`` None means a temporary directory, removed at the end. Levels of fewer than ``small`` states
    are expanded by the driver while it can hold the fingerprints of all states found (``driver_states``).
    ``buckets`` is a power of two, or None for a number that fits the cores.
    """

    master: str = LOCAL
    checkpoint: str | None = None
    resume: bool = False
    small: int = 200_000
    driver_states: int = 4_000_000
    buckets: int | None = None
