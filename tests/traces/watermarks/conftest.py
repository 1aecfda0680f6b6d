from __future__ import annotations

from pathlib import Path

import pytest

from tests.traces.broker_lines import Made


@pytest.fixture
def made(tmp_path: Path) -> Made:
    cluster = Made(tmp_path)
    cluster.begin()
    return cluster
