"""Recordings of real systems beside the repository; tests that need a missing one are skipped.

If ``HIGHWATER_NEEDS_RECORDINGS`` is set, as in continuous integration, a missing recording fails the whole
run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared"
REQUIRED = "HIGHWATER_NEEDS_RECORDINGS"
"""If this environment variable is set, a run without recordings fails."""
FOLDERS = (
    "traces/kafka-4.2/clusters",
    "peers",
    "field",
)
"""The folders of recordings, below ``SHARED``."""


def folder(name: str) -> Path:
    """The path of one of FOLDERS, existing or not. Raises ValueError for any other name."""
    if name not in FOLDERS:
        raise ValueError(f"{name} is none of {', '.join(FOLDERS)}")
    return SHARED / name


def needs(name: str) -> pytest.MarkDecorator:
    """A mark that skips a test if this folder of FOLDERS is missing or empty."""
    is_there = _holds_something(folder(name))
    return pytest.mark.skipif(not is_there, reason=f"shared/{name} is not beside the repository")


def refuse_without(environment: Mapping[str, str] = os.environ, shared: Path = SHARED) -> None:
    """Raises UsageError if ``REQUIRED`` is set and a recording is missing."""
    missing = [name for name in FOLDERS if not _holds_something(shared / name)]
    if environment.get(REQUIRED) and missing:
        raise pytest.UsageError(
            f"{REQUIRED} is set, and these recordings are missing in {shared}: {', '.join(missing)}"
        )


def _holds_something(place: Path) -> bool:
    return place.is_dir() and any(place.iterdir())
