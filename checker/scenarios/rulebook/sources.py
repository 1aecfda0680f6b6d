"""What names a number as its source: switches, actions, properties, and the scenarios that go with these."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from functools import cache
from typing import Any

from highwater import invariants
from highwater.checker.scenarios import catalogue, scenario_files
from highwater.checker.scenarios.catalogue import Definition
from highwater.checker.scenarios.rulebook.code import at
from highwater.invariants.statements import Statement
from highwater.model import registry
from highwater.model.language.errors import place_of
from highwater.model.language.liveness import Liveness
from highwater.model.language.protocol import Invariant
from highwater.model.language.rulebook import numbers
from highwater.model.language.step_properties import StepProperty

Entry = dict[str, Any]
Definitions = tuple[Definition, ...]


@cache
def definitions() -> Definitions:
    """The protocols that come with the checker."""
    return tuple(catalogue.load(name) for name in registry.NAMES)


def switches(number: str, within: Definitions) -> list[Entry]:
    """The rules of these protocols that can be switched and have this number, each once, with its protocols."""
    return _once(
        (d, name, rule.sentence, rule.place)
        for d in within
        for name, rule in d.protocol.rules.items()
        if number in numbers(rule.source)
    )


def named(kind: str, number: str, within: Definitions) -> list[Entry]:
    """The ``actions``, ``invariants``, ``step_properties`` or ``liveness`` of these protocols with this number."""

    def of(d: Definition) -> Iterable[Any]:
        return d.protocol.actions() if kind == "actions" else getattr(d, kind)

    return _once(
        (d, x.name, x.meaning, place_of(x.function))
        for d in within
        for x in of(d)
        if number in numbers(x.source)
    )


def helpers(number: str) -> list[Entry]:
    """Other properties with this number, of no protocol's own: those that proofs, replay and steps need."""
    return [
        {"name": p.name, "meaning": p.meaning, "place": at(place_of(p.function))}
        for p in other_properties()
        if number in numbers(p.source)
    ]


@cache
def other_properties() -> tuple[Invariant | Liveness | StepProperty | Statement, ...]:
    """The properties in the package of invariants that are not among those of a protocol."""
    stated: list[Any] = [p for d in definitions() for p in (*d.invariants, *d.step_properties, *d.liveness)]
    own, names = {id(p) for p in stated}, {p.name for p in stated}
    found: dict[int, Any] = {}
    for module in pkgutil.walk_packages(invariants.__path__, f"{invariants.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Statement) and value.name not in names:
                found[id(value)] = value
            if isinstance(value, Invariant | Liveness | StepProperty) and id(value) not in own:
                found[id(value)] = value
    return tuple(found.values())


def scenarios(switched: set[tuple[str, str]], properties: set[tuple[str, str]]) -> list[Entry]:
    """The scenarios that set one of these switches, or expect one of these properties to be violated or reached.

    Both are pairs of protocol and name.
    """
    found = []
    for name, outline in outlines().items():
        protocol = outline.get("protocol", "")
        sets = [r for r in outline.get("rules", {}) if (protocol, r) in switched]
        expect = outline.get("expect", {})
        expected = (*expect.get("violated", ()), *expect.get("reachable", ()))
        breaks = [p for p in expected if (protocol, p) in properties]
        if sets or breaks:
            entry = {"name": name, "title": outline.get("title", ""), "sets": sets, "violates": breaks}
            found.append(entry)
    return found


@cache
def outlines() -> dict[str, dict[str, Any]]:
    """Every scenario's file as a table, by its name."""
    return {name: scenario_files.outline(path) for name, path in catalogue.scenario_files().items()}


def _once(found: Iterable[tuple[Definition, str, str, str | None]]) -> list[Entry]:
    """Each (name, place) once, with the protocols that have it."""
    by_place: dict[tuple[str, str | None], Entry] = {}
    for definition, name, meaning, place in found:
        entry = by_place.setdefault(
            (name, place), {"name": name, "protocols": [], "meaning": meaning, "place": at(place)}
        )
        entry["protocols"].append(definition.name)
    return list(by_place.values())
