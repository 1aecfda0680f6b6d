"""Kafka by version for the tests that run Kafka's own code: Maven fetches it once into the tests' cache.

A test is skipped if Kafka, or a program or package that it needs, cannot be had. If ``HIGHWATER_NEEDS_KAFKA`` is set,
as in continuous integration, the test fails instead.
"""

from __future__ import annotations

import importlib
import os
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from highwater.checker.base.problems import InputError
from highwater.checker.conform import releases

VERSION = "4.2.1"
"""The release that the tests run unless ``pytest --kafka`` names another."""
NEWEST = "4.4.0"
"""The newest release, which the live test runs."""
REQUIRED = "HIGHWATER_NEEDS_KAFKA"
"""If this environment variable is set, tests fail without Kafka."""


def require(program: str, packages: Sequence[str] = ()) -> None:
    """Skip or fail the test if a program on the path or an importable package is missing."""
    missing = [] if shutil.which(program) else [f"{program} on the path"]
    missing += [f"the Python package {name}" for name in packages if not _is_installed(name)]
    if missing:
        _without(f"tests with Kafka need {', '.join(missing)}")


def kafka(named: str | None) -> Path:
    """The directory of a Kafka: of the version or directory that ``pytest --kafka`` names, else of ``VERSION``."""
    require("javac")
    named = named or VERSION
    if not releases.is_version(named):
        return Path(named)
    try:
        return releases.release(named)
    except InputError as wrong:
        _without(f"tests with Kafka need a release: {wrong}")


def _without(reason: str) -> NoReturn:
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
