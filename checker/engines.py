"""The engines by name. Each is imported only when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from checker.problems import InputError
from checker.search import ProgressCallback, SearchOptions, SearchResult
from model.language.model import Model

if TYPE_CHECKING:
    from checker.simulation import Simulate

NAMES = ("native", "interpreter", "spark")
DEFAULT = "native"

_MODULES = {"native": "checker.native", "interpreter": "checker.reference"}
_WALKS = {"native": "checker.native", "interpreter": "checker.simulation"}

Search = Callable[[Model, SearchOptions, ProgressCallback | None], SearchResult]


def search(name: str) -> Search:
    """The exhaustive search of an engine; InputError where it is not available."""
    function: Search = _load(name, _MODULES, "search")
    return function


def simulate(name: str) -> Simulate:
    """The random walks of an engine; InputError where they are not available."""
    function: Simulate = _load(name, _WALKS, "simulate")
    return function


def _load(name: str, modules: dict[str, str], word: str) -> Any:
    if name in modules and find_spec(modules[name]) is not None:
        function = getattr(importlib.import_module(modules[name]), word, None)
        if function is not None:
            return function
    raise InputError(f"--engine {name}: {word} is not available with this engine yet")
