"""The model that a trace is held against: protocol, parameters and rules by their names in the first line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache

from highwater.invariants.catalogue import stated
from highwater.model import registry
from highwater.model.language import choices
from highwater.model.language.choices import ChoiceError
from highwater.model.language.errors import LanguageError
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Model
from highwater.model.language.types import Type
from highwater.traces.reading.errors import printable
from highwater.traces.reading.fields import Place
from highwater.traces.runs.format import TraceMeta

MAX_CHOICES = 4000
"""The most actions, each choice of its parameters counted, of a model that a trace may ask for."""


def model_for(
    meta: TraceMeta, rules: Mapping[str, bool] | None = None, profile: str | None = None
) -> tuple[str | None, Interpreter]:
    """The profile and the model that a trace asks for, with other rules or another profile where they are given.

    The trace's own rules stay over another profile, and ``rules`` go over both. Raises TraceError for what the
    trace names and does not exist, ChoiceError for what the arguments name.
    """
    with _blaming(meta.place.at("protocol")):
        protocol = registry.protocol_of(meta.protocol)
    with _blaming(meta.place.at("profile")):
        choices.rules_on(protocol, meta.profile)
    with _blaming(meta.place.at("rules")):
        choices.rules_on(protocol, None, meta.rules)
    place = meta.place.at("parameters")
    for key, value in meta.parameters.items():
        with _blaming(place.at(key) if key in protocol.parameters else place):
            choices.parameter_of(protocol, key, value)
    name = meta.profile if profile is None else profile
    on = choices.rules_on(protocol, name, meta.rules, rules or {})
    try:
        return name, _model(meta.protocol, tuple(sorted(meta.parameters.items())), on)
    except LanguageError as wrong:
        raise place.wrong(f"no model for these parameters: {printable(wrong)}") from None


@contextmanager
def _blaming(place: Place) -> Iterator[None]:
    """What is wrong with a choice is wrong at a place of the trace."""
    try:
        yield
    except ChoiceError as wrong:
        raise place.wrong(str(wrong)) from None


@lru_cache(maxsize=8)
def _model(name: str, parameters: tuple[tuple[str, int], ...], rules: frozenset[str]) -> Interpreter:
    """A protocol traced with its invariants. Raises LanguageError where it is too large or cannot be."""
    protocol = registry.protocol_of(name)(dict(parameters), rules)
    choices = 0
    for action in protocol.actions():
        count = 1
        for attribute in action.domains.values():
            domain = getattr(protocol, attribute)
            count *= sum(1 for _ in (domain.constants() if isinstance(domain, Type) else domain))
        choices += count
    if choices > MAX_CHOICES:
        raise LanguageError(f"{choices} actions, where {MAX_CHOICES} are the most; fewer brokers are needed")
    known = stated(name)
    traced = Model(protocol, known.invariants, step_properties=known.step_properties)
    _ = traced.start  # so that what is wrong with the initial states is said now
    return Interpreter(traced)
