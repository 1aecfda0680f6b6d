"""What was recorded of real systems, where it lies beside the repository; its tests are skipped where it does not.

Where ``HIGHWATER_NEEDS_RECORDINGS`` is set, as continuous integration does, none of it may be missing: a run of the
tests that would leave some out fails as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared"
REQUIRED = "HIGHWATER_NEEDS_RECORDINGS"
"""The environment variable: whether a run without recordings fails."""
FOLDERS = (
    "traces/kafka/clusters",
    "traces/kafka/controller",
    "traces/kafka-4.2/clusters",
    "traces/kafka-4.2/controller",
    "peers",
)
"""What the tests read, below ``SHARED``."""


def folder(name: str) -> Path:
    """The place of one of FOLDERS, whether it is there or not. Raises ValueError for any other name."""
    if name not in FOLDERS:
        raise ValueError(f"{name} is none of {', '.join(FOLDERS)}")
    return SHARED / name


def needs(name: str) -> pytest.MarkDecorator:
    """Marks tests that read what is in one of FOLDERS."""
    is_there = _holds_something(folder(name))
    return pytest.mark.skipif(not is_there, reason=f"shared/{name} is not beside the repository")


def refuse_without(environment: Mapping[str, str] = os.environ, shared: Path = SHARED) -> None:
    """UsageError where recordings are asked for, and some are not there."""
    missing = [name for name in FOLDERS if not _holds_something(shared / name)]
    if environment.get(REQUIRED) and missing:
        raise pytest.UsageError(
            f"{REQUIRED} is set, and these recordings are missing in {shared}: {', '.join(missing)}"
        )


def _holds_something(place: Path) -> bool:
    return place.is_dir() and any(place.iterdir())
