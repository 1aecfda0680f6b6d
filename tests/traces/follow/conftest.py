"""Fixtures for tests of a follower: a directory for a metadata log, and a log with three losses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.traces.follow.clusters import Cluster, made_log


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path / "cluster")
    yield found
    found.follower.close()


@pytest.fixture
def log(tmp_path: Path) -> bytes:
    return made_log(tmp_path / "made")
