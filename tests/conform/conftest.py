"""Kafka 4.2.1, unpacked once, and a bridge to it; skipped with the reason where either cannot be had."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.checker.conform.bridge import Bridge, Jars
from tests.recordings import SHARED

TARBALL = SHARED / "kafka-4.2.1.tar.xz"


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unpacked release of Kafka."""
    if not TARBALL.is_file():
        pytest.skip(f"shared/{TARBALL.name} is not beside the repository")
    if shutil.which("javac") is None:
        pytest.skip("there is no JDK on the path")
    place = tmp_path_factory.mktemp("kafka")
    with tarfile.open(TARBALL) as packed:
        packed.extractall(place, filter="data")
    return next(place.iterdir())


@pytest.fixture(scope="session")
def bridge(kafka: Path) -> Iterator[Bridge]:
    """A running bridge."""
    with Bridge(Jars.found(kafka)) as running:
        yield running
