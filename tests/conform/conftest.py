"""Fixtures: a Kafka release, unpacked once for all tests, and a running Java bridge to its controller."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.checker.conform.bridge import Bridge, Jars
from tests import kafka_release


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Path]:
    """The release or build that ``pytest --kafka DIR`` names, else the release in ``shared``."""
    named = pytestconfig.getoption("--kafka")
    kafka_release.require("javac", tarball=named is None)
    if named is not None:
        yield Path(named)
        return
    with kafka_release.unpacked(tmp_path_factory.mktemp("kafka")) as release:
        yield release


@pytest.fixture(scope="session")
def bridge(kafka: Path) -> Iterator[Bridge]:
    """A running bridge."""
    with Bridge(Jars.found(kafka)) as running:
        yield running
