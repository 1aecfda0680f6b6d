"""What these tests share: a scenario that is no part of the project."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import highwater

EXAMPLES = Path(highwater.__file__).parents[1] / "docs" / "examples"


@pytest.fixture
def register(tmp_path: Path) -> Path:
    """The register of the examples, as somebody's own file, small."""
    shutil.copy(EXAMPLES / "register.py", tmp_path)
    text = 'protocol = "register.py"\n[parameters]\nreplicas = 2\nwrites = 1\n'
    (tmp_path / "register.toml").write_text(text, encoding="utf-8")
    return tmp_path / "register.toml"
