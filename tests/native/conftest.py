"""What tests of the native engine share."""

from __future__ import annotations

import pytest

from highwater.checker.engines import cache as code_cache
from highwater.checker.engines.native.code import program
from tests.conftest import BEGIN


@pytest.fixture
def compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code is made with just as much effort as is asked; else better code that is kept would be taken."""
    monkeypatch.setenv(code_cache.VARIABLE, code_cache.OFF)


@pytest.fixture
def better_code_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Better code is made beside a search of some size, as it is outside of tests."""
    monkeypatch.setattr(program, "_BEGIN", BEGIN)
