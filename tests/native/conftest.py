"""What tests of the native engine share."""

from __future__ import annotations

import pytest

from highwater.checker.engines.native.code import cache as code_cache


@pytest.fixture
def compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code is made with just as much effort as is asked; else better code that is kept would be taken."""
    monkeypatch.setenv(code_cache.VARIABLE, code_cache.OFF)
