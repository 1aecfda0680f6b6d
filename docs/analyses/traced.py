"""Models that pages ask for: a request is traced once, however many pages ask it."""

from __future__ import annotations

from highwater.checker.asking.request import Request
from highwater.model.language.model import Model

_TRACED: dict[object, tuple[Request, Model]] = {}
"""With the requests, so that what a key names stays what it is."""


def traced(request: Request) -> Model:
    """The model of a request. Raises LanguageError or InputError where its text cannot be used."""
    protocol = request.scenario.definition.protocol
    asked = (*request.invariants, *request.step_properties, *request.liveness, *request.goals)
    key = (protocol, *request.parameters.items(), *request.rules.items(), *map(id, asked), request.outside)
    if key not in _TRACED:
        _TRACED[key] = request, request.model()
    return _TRACED[key][1]
