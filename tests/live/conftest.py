"""One run of a live cluster for all tests here; skipped with the reason without Kafka, Java or its client."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recordings import unpacked_kafka


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A release of Kafka, unpacked for these tests."""
    if shutil.which("java") is None:
        pytest.skip("there is no Java on the path")
    pytest.importorskip("kafka", reason="the Python package kafka-python is not installed")
    place = tmp_path_factory.mktemp("kafka")
    yield unpacked_kafka(place)
    shutil.rmtree(place)
