"""The engines by name. Each is imported only when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.util import find_spec

from checker.problems import InputError
from checker.search import ProgressCallback, SearchOptions, SearchResult
from model.language.model import Model

NAMES = ("native", "interpreter", "spark")
DEFAULT = "native"

_MODULES = {"native": "checker.native", "interpreter": "checker.reference"}

Search = Callable[[Model, SearchOptions, ProgressCallback | None], SearchResult]


def available(name: str) -> bool:
    """Whether this engine can be asked for."""
    return name in _MODULES and find_spec(_MODULES[name]) is not None


def search(name: str) -> Search:
    """The exhaustive search of an engine; InputError where it is not available."""
    if not available(name):
        raise InputError(f"--engine {name}: this engine is not available yet; there is: {_there_is()}")
    function: Search = importlib.import_module(_MODULES[name]).search
    return function


def _there_is() -> str:
    return ", ".join(name for name in NAMES if available(name))
