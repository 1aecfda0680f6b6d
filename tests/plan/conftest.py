"""Fixture: a running Java bridge to Kafka's controller."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.checker.conform.bridge import Bridge, Jars


@pytest.fixture(scope="session")
def bridge(kafka: Path) -> Iterator[Bridge]:
    """A running bridge."""
    with Bridge(Jars.found(kafka)) as running:
        yield running
