"""One run of a live cluster for all tests here; skipped with the reason without Kafka, Java or its client."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recordings import SHARED

TARBALL = SHARED / "kafka-4.2.1.tar.xz"


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A release of Kafka, unpacked for these tests."""
    if shutil.which("java") is None:
        pytest.skip("there is no Java on the path")
    pytest.importorskip("kafka", reason="the Python package kafka-python is not installed")
    if not TARBALL.is_file():
        pytest.skip(f"shared/{TARBALL.name} is not beside the repository")
    place = tmp_path_factory.mktemp("kafka")
    with tarfile.open(TARBALL) as packed:
        packed.extractall(place, filter="data")
    yield next(place.iterdir())
    shutil.rmtree(place)
