"""The model that a trace is held against: protocol, parameters and rules by their names in the first line."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from highwater import model
from highwater.model.language.errors import LanguageError
from highwater.model.language.model import Model
from highwater.model.language.protocol import Protocol
from highwater.model.language.types import Type
from highwater.traces.errors import printable
from highwater.traces.runs.compiled import Compiled
from highwater.traces.runs.format import Meta

MAX_CHOICES = 4000
"""The most actions, each choice of its parameters counted, of a model that a trace may ask for."""


def protocol_names() -> list[str]:
    """The packages under ``model`` that hold a protocol: those whose text sets PROTOCOL."""
    root = Path(model.__file__).parent
    found = []
    for file in sorted(root.rglob("__init__.py")):
        parts = file.parent.relative_to(root).parts
        if parts and parts[0] != "language" and "\nPROTOCOL" in file.read_text(encoding="utf-8"):
            found.append(".".join(parts))
    return found


def model_for(
    meta: Meta, rules: Mapping[str, bool] | None = None, profile: str | None = None
) -> tuple[str | None, Compiled]:
    """The profile and the model that a trace asks for, with other rules or another profile where they are given.

    The trace's own rules stay over another profile, and ``rules`` go over both. Raises TraceError for what the
    trace names and does not exist, LanguageError for what the arguments name.
    """
    known = protocol_names()
    if meta.protocol not in known:
        raise meta.place.at("protocol").wrong(
            f"unknown protocol {printable(meta.protocol, 60)!r}; there are {', '.join(known)}"
        )
    protocol = _protocol(meta.protocol)
    if meta.profile is not None and meta.profile not in protocol.profiles:
        raise meta.place.at("profile").wrong(
            f"unknown profile {printable(meta.profile, 60)!r}; there are {_list(protocol.profiles)}"
        )
    if profile is not None and profile not in protocol.profiles:
        raise LanguageError(f"there is no profile {profile!r}; there are {_list(protocol.profiles)}")
    name = meta.profile if profile is None else profile
    on = set(protocol.rules if name is None else protocol.profiles[name].rules)
    for rule, is_on in meta.rules.items():
        if rule not in protocol.rules:
            raise meta.place.at("rules").wrong(
                f"unknown rule {printable(rule, 60)!r}; there are {_list(protocol.rules)}"
            )
        (on.add if is_on else on.discard)(rule)
    for rule, is_on in (rules or {}).items():
        if rule not in protocol.rules:
            raise LanguageError(f"there is no rule {rule!r}; there are {_list(protocol.rules)}")
        (on.add if is_on else on.discard)(rule)
    place = meta.place.at("parameters")
    for key, value in meta.parameters.items():
        parameter = protocol.parameters.get(key)
        if parameter is None:
            raise place.wrong(
                f"unknown parameter {printable(key, 60)!r}; there are {_list(protocol.parameters)}"
            )
        if not parameter.low <= value <= parameter.high:
            raise place.at(key).wrong(f"{value} is outside {parameter.low}..{parameter.high}")
    try:
        return name, _model(meta.protocol, tuple(sorted(meta.parameters.items())), frozenset(on))
    except LanguageError as wrong:
        raise place.wrong(f"no model for these parameters: {printable(wrong)}") from None


@lru_cache(maxsize=8)
def _model(name: str, parameters: tuple[tuple[str, int], ...], rules: frozenset[str]) -> Compiled:
    """A protocol traced with its invariants. Raises LanguageError where it is too large or cannot be."""
    protocol = _protocol(name)(dict(parameters), rules)
    choices = 0
    for action in protocol.actions():
        count = 1
        for attribute in action.domains.values():
            domain = getattr(protocol, attribute)
            count *= sum(1 for _ in (domain.constants() if isinstance(domain, Type) else domain))
        choices += count
    if choices > MAX_CHOICES:
        raise LanguageError(f"{choices} actions, where {MAX_CHOICES} are the most; fewer brokers are needed")
    stated = getattr(importlib.import_module(f"highwater.invariants.{name}"), "INVARIANTS", ())
    traced = Model(protocol, (*stated, *protocol.invariants))
    _ = traced.initial  # so that what is wrong with the initial states is said now
    return Compiled(traced)


def _protocol(name: str) -> type[Protocol]:
    """The protocol of a package whose name was looked up."""
    found: type[Protocol] = importlib.import_module(f"highwater.model.{name}").PROTOCOL
    return found


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


__all__ = ["MAX_CHOICES", "model_for", "protocol_names"]
