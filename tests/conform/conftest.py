"""Kafka 4.2.1, unpacked once, and a bridge to it; skipped with the reason where either cannot be had."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.checker.conform.bridge import Bridge, Jars
from tests.recordings import unpacked_kafka


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unpacked release of Kafka."""
    if shutil.which("javac") is None:
        pytest.skip("there is no JDK on the path")
    return unpacked_kafka(tmp_path_factory.mktemp("kafka"))


@pytest.fixture(scope="session")
def bridge(kafka: Path) -> Iterator[Bridge]:
    """A running bridge."""
    with Bridge(Jars.found(kafka)) as running:
        yield running
