"""A scenario outside of the project, for the mutation tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import highwater
from tests.checker.conftest import _in_forks

__all__ = ["_in_forks"]

EXAMPLES = Path(highwater.__file__).parents[1] / "docs" / "examples"


def small_register(directory: Path) -> Path:
    shutil.copy(EXAMPLES / "register.py", directory)
    text = 'protocol = "register.py"\n[parameters]\nreplicas = 2\nwrites = 1\n'
    (directory / "register.toml").write_text(text)
    return directory / "register.toml"


@pytest.fixture
def register(tmp_path: Path) -> Path:
    return small_register(tmp_path)
