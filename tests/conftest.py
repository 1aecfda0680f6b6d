"""What all tests share: machine code, which is kept beside pytest's own cache."""

from __future__ import annotations

import os

import pytest

from highwater.checker import code_cache


def pytest_configure(config: pytest.Config) -> None:
    """Tests, and what they start, keep their code in the checkout: not in the user's own cache, nor from it."""
    place = config.rootpath / ".pytest_cache" / "code"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.environ[code_cache.VARIABLE] = str(place)
