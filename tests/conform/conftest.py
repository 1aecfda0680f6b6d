"""Kafka 4.2.1, unpacked once, and a bridge to it; skipped with the reason where either cannot be had."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from highwater.checker.conform.bridge import Bridge, Jars
from tests.recordings import REQUIRED, SHARED

TARBALL = SHARED / "kafka-4.2.1.tar.xz"


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """An unpacked release of Kafka: that of ``pytest --kafka DIR``, else the one in ../shared."""
    if shutil.which("javac") is None:
        _leave_out("there is no JDK on the path")
    if named := pytestconfig.getoption("--kafka"):
        return Path(named)
    if not TARBALL.is_file():
        _leave_out(f"shared/{TARBALL.name} is not beside the repository, and there is no --kafka")
    place = tmp_path_factory.mktemp("kafka")
    with tarfile.open(TARBALL) as packed:
        packed.extractall(place, filter="data")
    return next(place.iterdir())


def _leave_out(reason: str) -> NoReturn:
    """Skip the test; fail it where continuous integration leaves nothing out."""
    if os.environ.get(REQUIRED):
        pytest.fail(f"{REQUIRED} is set, and {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def bridge(kafka: Path) -> Iterator[Bridge]:
    """A running bridge."""
    with Bridge(Jars.found(kafka)) as running:
        yield running
