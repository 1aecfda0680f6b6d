"""Unpack a Kafka release from ``shared`` for the tests that run Kafka's own code.

A test is skipped if Kafka, or a program or package that it needs, is missing. If
``HIGHWATER_NEEDS_RECORDINGS`` is set, as in continuous integration, the test fails instead.
"""

from __future__ import annotations

import importlib
import os
import shutil
import tarfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.recordings import REQUIRED, SHARED

TARBALL = SHARED / "kafka-4.2.1.tar.xz"


def require(program: str, packages: Sequence[str] = (), *, tarball: bool = True) -> None:
    """Skip the test if something that it needs is missing; fail it if ``REQUIRED`` is set.

    A test needs a program on the path, importable packages, and, if ``tarball``, the release in ``shared``.
    """
    missing = [] if shutil.which(program) else [f"{program} on the path"]
    missing += [f"the Python package {name}" for name in packages if not _is_installed(name)]
    if tarball and not TARBALL.is_file():
        missing.append(f"shared/{TARBALL.name} beside the repository")
    if not missing:
        return
    reason = f"tests with Kafka need {', '.join(missing)}"
    if os.environ.get(REQUIRED):
        pytest.fail(f"{REQUIRED} is set, and {reason}")
    pytest.skip(reason)


def _is_installed(package: str) -> bool:
    """True if the package can be imported. Its warnings are ignored: they would fail the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            importlib.import_module(package)
        except ImportError:
            return False
    return True


@contextmanager
def unpacked(folder: Path) -> Iterator[Path]:
    """The folder of the release, unpacked into ``folder``, which is removed at the end."""
    with tarfile.open(TARBALL) as packed:
        packed.extractall(folder, filter="data")
    try:
        yield next(folder.iterdir())
    finally:
        shutil.rmtree(folder)
