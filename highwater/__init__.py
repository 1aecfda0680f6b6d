"""Highwater: a formal model of Apache Kafka's replication protocol, and its checker.

The public names (docs/results.md): ``check`` explores a protocol or a scenario, ``simulate`` takes random walks in it,
``explore`` opens its state space, ``replay`` checks a recording against it; ``highwater.language`` has the language of
protocols. Each name is imported when it is first used, so importing this package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from highwater.errors import HighwaterError

if TYPE_CHECKING:
    from highwater.checker.api import (
        check,
        explore,
        protocol,
        protocols,
        scenario,
        scenarios,
        simulate,
    )
    from highwater.checker.base.problems import InputError
    from highwater.checker.explore.session import Path
    from highwater.checker.report.results import Result
    from highwater.checker.scenarios.request import Request
    from highwater.model.language.errors import LanguageError
    from highwater.traces.reading import TraceError
    from highwater.traces.replay import replay

__version__ = "0.1.0"

_HOMES = {
    "InputError": "highwater.checker.base.problems",
    "LanguageError": "highwater.model.language.errors",
    "Path": "highwater.checker.explore.session",
    "Request": "highwater.checker.scenarios.request",
    "Result": "highwater.checker.report.results",
    "TraceError": "highwater.traces.reading",
    "check": "highwater.checker.api",
    "explore": "highwater.checker.api",
    "protocol": "highwater.checker.api",
    "protocols": "highwater.checker.api",
    "replay": "highwater.traces.replay",
    "scenario": "highwater.checker.api",
    "scenarios": "highwater.checker.api",
    "simulate": "highwater.checker.api",
}


def __getattr__(name: str) -> Any:
    """The object with this public name, imported now (PEP 562). Raises AttributeError for any other name."""
    if name == "language":
        return import_module("highwater.language")
    if name not in _HOMES:
        raise AttributeError(f"module 'highwater' has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted({*globals(), *__all__, "language"})


__all__ = [
    "HighwaterError", "InputError", "LanguageError", "Path", "Request", "Result", "TraceError",
    "__version__", "check", "explore", "protocol", "protocols", "replay", "scenario", "scenarios",
    "simulate",
]  # fmt: skip
