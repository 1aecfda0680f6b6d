"""The places that name a rule number: switches, actions, properties, scenarios and docstrings."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from highwater import checker, invariants
from highwater.checker.scenarios import catalogue, scenario_files
from highwater.checker.scenarios.catalogue import Definition
from highwater.invariants.statements import Statement
from highwater.model.language import Invariant, Liveness, StepProperty
from highwater.model.language.errors import place_of
from highwater.model.language.rulebook import numbers

ROOT = Path(checker.__file__).resolve().parent.parent
"""The parent of the folders model, invariants, checker and traces: the source tree, or the installed package."""

FOLDERS = ("model", "invariants", "traces")

Entry = dict[str, Any]


def at(place: str | None) -> str | None:
    """A place as ``model/…/file.py:line``, relative to ``ROOT``; None and places outside ``ROOT`` stay unchanged."""
    if place is None:
        return None
    file, _, line = place.rpartition(":")
    path = Path(file).resolve()
    return f"{path.relative_to(ROOT).as_posix()}:{line}" if path.is_relative_to(ROOT) else place


def names_number(text: str, number: str) -> bool:
    """True if a text names this number. A longer number that contains it does not count."""
    return number in text and re.search(rf"(?<![\w.\-/]){re.escape(number)}(?!\w|\.\d|-\w)", text) is not None


def functions(number: str) -> list[Entry]:
    """The functions and classes in ``FOLDERS`` whose docstring names the number.

    Those whose first sentence names the number come first; their ``states`` is True. Actions and properties are
    left out, because their ``source`` has the numbers of their rules.
    """
    found = []
    for path, text in _texts(FOLDERS):
        if names_number(text, number):
            found += [
                {
                    "name": name,
                    "place": f"{path}:{line}",
                    "states": number in numbers(meaning.partition(". ")[0]),
                    "meaning": meaning,
                }
                for name, line, meaning in _defined(text)
                if names_number(meaning, number)
            ]
    return sorted(found, key=lambda entry: not entry["states"])


@cache
def _texts(folders: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "language" not in path.parts
    )


def defined_at(name: str) -> list[str]:
    """The places in ``model`` at which a function or class with this name is defined.

    The name may include modules: ``fetching.send_fetch``.
    """
    return [
        f"{path}:{line}"
        for path, text in _texts(("model",))
        for function, line, _ in _defined(text)
        if f".{path.removesuffix('.py').replace('/', '.')}.{function}".endswith(f".{name}")
    ]


@cache
def _defined(text: str) -> tuple[tuple[str, int, str], ...]:
    """The name, the line and the docstring of every function and class in a source text.

    Actions and properties have no docstring here, because their ``source`` has the numbers of their rules.
    """
    return tuple(_definitions(ast.parse(text).body, ""))


def _definitions(body: list[ast.stmt], within: str) -> Iterator[tuple[str, int, str]]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            stated = any(isinstance(d, ast.Call) for d in node.decorator_list)
            said = "" if stated else " ".join((ast.get_docstring(node) or "").split())
            yield f"{within}{node.name}", node.lineno, said
        if isinstance(node, ast.ClassDef):
            yield from _definitions(node.body, f"{within}{node.name}.")


Definitions = tuple[Definition, ...]


def switches(number: str, within: Definitions) -> list[Entry]:
    """The switchable rules of these protocols that have this number, each once, with its protocols."""
    return _once(
        (d, name, rule.sentence, rule.place)
        for d in within
        for name, rule in d.protocol.rules.items()
        if number in numbers(rule.source)
    )


def named(kind: str, number: str, within: Definitions) -> list[Entry]:
    """The actions or properties of one kind that have this number in these protocols.

    ``kind`` is ``actions``, ``invariants``, ``step_properties`` or ``liveness``.
    """

    def of(d: Definition) -> Iterable[Any]:
        return d.protocol.actions() if kind == "actions" else getattr(d, kind)

    return _once(
        (d, x.name, x.meaning, place_of(x.function))
        for d in within
        for x in of(d)
        if number in numbers(x.source)
    )


def helpers(number: str) -> list[Entry]:
    """The properties from ``other_properties`` with this number: helpers of proofs, goals, and properties of replay."""
    return [
        {"name": p.name, "meaning": p.meaning, "place": at(place_of(p.function))}
        for p in other_properties()
        if number in numbers(p.source)
    ]


@cache
def other_properties() -> tuple[Invariant | Liveness | StepProperty | Statement, ...]:
    """The properties in the package ``invariants`` that no protocol has as invariant, step property or liveness."""
    stated: list[Any] = [
        p for d in catalogue.definitions() for p in (*d.invariants, *d.step_properties, *d.liveness)
    ]
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

    Switches and properties are pairs of protocol and name.
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
    """The content of every built-in scenario's file as a table, by the scenario's name."""
    return {name: scenario_files.outline(path) for name, path in catalogue.scenario_files().items()}


def _once(found: Iterable[tuple[Definition, str, str, str | None]]) -> list[Entry]:
    """One entry for each name and place, with all its protocols. ``found`` has (definition, name, meaning, place)."""
    by_place: dict[tuple[str, str | None], Entry] = {}
    for definition, name, meaning, place in found:
        entry = by_place.setdefault(
            (name, place), {"name": name, "protocols": [], "meaning": meaning, "place": at(place)}
        )
        entry["protocols"].append(definition.name)
    return list(by_place.values())
