"""A Kafka release, unpacked for the live cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import kafka_release


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The release in ``shared``."""
    kafka_release.require("java", ["kafka"])
    with kafka_release.unpacked(tmp_path_factory.mktemp("kafka")) as release:
        yield release
