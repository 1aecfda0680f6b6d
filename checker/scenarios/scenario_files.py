"""Scenario files: their keys, and the properties that they name."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct, ValidationError, convert

from highwater.checker.base import files
from highwater.checker.base.problems import InputError
from highwater.checker.scenarios import catalogue
from highwater.checker.scenarios.catalogue import Definition
from highwater.checker.scenarios.search import DEADLOCK
from highwater.errors import unknown
from highwater.model import registry
from highwater.model.language import Invariant, Liveness, Protocol, StepProperty
from highwater.model.language.protocol import (
    ChoiceError,
    Conditional,
    Goal,
    parameter_value,
    profile_of,
    rule_of,
    rules_on,
    why_absent,
)
from highwater.traces.reading import mismatch

# --- scenarios ----------------------------------------------------------------------------------------

Absent = Callable[[Conditional], str]
"""A function that gives the reason why an action or a property does not exist in a model; "" if it exists."""

INVARIANTS = "invariants"
"""The property name that stands for all invariants that exist under the rules."""
STEP_PROPERTIES = "step_properties"
"""The property name that stands for all step properties."""
LIVENESS = "liveness"
"""The property name that stands for all liveness properties."""
HELPERS = "helpers"
"""The property name that stands for all helpers: invariants and step properties that support proofs."""
REACHABLE = "reachable"
"""For an option, the name that stands for all reachability goals; in [expect], the key that lists goals."""

Count = Annotated[int, Meta(ge=0)]


class Expectation(Struct, frozen=True):
    """The expected results of a scenario: the violated properties (empty: all hold), and exact counts (None: any).

    ``impossible`` are actions that are never enabled, and ``reachable`` are goals that are reached. ``constant`` are
    properties that check nothing, for instance because their premise never holds.
    """

    violated: frozenset[str] = frozenset()
    distinct_states: Count | None = None
    depth: Count | None = None
    impossible: frozenset[str] = frozenset()
    constant: frozenset[str] = frozenset()
    reachable: tuple[str, ...] = ()


class ScenarioTable(Struct, frozen=True):
    """The keys of a scenario's file."""

    protocol: str
    title: str = ""
    profile: str | None = None
    properties: tuple[str, ...] | None = None
    standard: bool = False
    symmetry: bool = False
    deadlock: bool = False
    parameters: dict[str, Any] = {}
    rules: dict[str, Any] = {}
    procedure: str | None = None
    expect: Expectation = Expectation()


@dataclass(frozen=True)
class Scenario:
    """A scenario as its file states it; ``rules`` override the profile's.

    ``properties`` None means all invariants, step properties and liveness properties.
    """

    name: str
    title: str
    definition: Definition
    profile: str | None
    parameters: Mapping[str, int]
    rules: Mapping[str, bool]
    properties: tuple[str, ...] | None
    standard: bool
    symmetry: bool
    deadlock: bool
    expectation: Expectation

    @property
    def protocol(self) -> type[Protocol]:
        """The protocol's class."""
        return self.definition.protocol

    def rule_values(self, profile: str | None, *changes: Mapping[str, bool]) -> dict[str, bool]:
        """For each rule of the protocol, True if the rule is on.

        The profile's rules are on (all rules if ``profile`` is None). ``changes`` override that, in their order.
        """
        on = rules_on(self.protocol, profile, *changes)
        return {name: name in on for name in self.protocol.rules}

    def parameter_values(self, changes: Mapping[str, int]) -> dict[str, int]:
        """The value of every parameter: the protocol's default, the scenario's value, or the value in ``changes``."""
        defaults = {name: p.default for name, p in self.protocol.parameters.items()}
        return {**defaults, **self.parameters, **changes}

    def absent(self) -> Absent:
        """The function that gives the reason why an action or a property does not exist in this scenario."""
        values = self.rule_values(self.profile, self.rules)
        return partial(why_absent, values.__getitem__, self.parameter_values({}))


def find(argument: str) -> Scenario:
    """The scenario with this name, or at this path: a ``.toml`` scenario, or a ``.py`` protocol with its defaults.

    Raises InputError, with file, line and key, if the scenario is invalid.
    """
    if argument.endswith(".toml"):
        return read(Path(argument), argument)
    if argument.endswith(".py"):
        return bare(catalogue.load_file(Path(argument)), argument)
    return read(catalogue.scenario_file(argument), argument)


def is_path(argument: str) -> bool:
    """True if an argument is the path of a scenario or a protocol, not a scenario's name."""
    return argument.endswith((".toml", ".py"))


def bare(definition: Definition, name: str | None = None) -> Scenario:
    """A protocol with its defaults as a scenario that expects every declared property to hold.

    Liveness properties of built-in protocols are left out, because they need special bounds and rules.
    """
    ours = definition.file is None and definition.name in registry.NAMES
    return Scenario(
        name=name or definition.name,
        title="",
        definition=definition,
        profile=None,
        parameters={},
        rules={},
        properties=(INVARIANTS, STEP_PROPERTIES) if ours and definition.liveness else None,
        standard=False,
        symmetry=False,
        deadlock=False,
        expectation=Expectation(),
    )


def expanded(arguments: Iterable[str]) -> list[str]:
    """The names and paths that arguments stand for. A pattern adds all matching scenarios that are not yet listed.

    Raises InputError if a pattern matches no scenario.
    """
    found: list[str] = []
    for argument in arguments:
        if not _is_pattern(argument):
            found.append(argument)
        elif names := fnmatch.filter(catalogue.scenario_files(), argument):
            found += [name for name in names if name not in found]
        else:
            raise InputError(f"no scenario matches {argument!r}: `highwater list` lists them")
    return found


def _is_pattern(argument: str) -> bool:
    return any(sign in argument for sign in "*?[") and not Path(argument).exists()


def standard_names() -> list[str]:
    """The names of the scenarios that ``highwater check`` explores without arguments."""
    return [name for name, (_, is_standard) in titles().items() if is_standard]


def standard() -> list[Scenario]:
    """The scenarios that ``highwater check`` explores without arguments."""
    return [find(name) for name in standard_names()]


def titles() -> dict[str, tuple[str, bool]]:
    """For each built-in scenario, its title, and True if it is standard. No protocol is loaded."""
    outlines = {name: outline(path) for name, path in catalogue.scenario_files().items()}
    return {name: (str(o.get("title", "")), bool(o.get("standard"))) for name, o in outlines.items()}


def read(path: Path, name: str) -> Scenario:
    """Read a scenario's file. Raises InputError if it is invalid."""
    file = _File(path)
    table = file.form()
    definition = file.definition(table.protocol)
    if table.procedure is not None:
        with file.at("procedure"):
            definition = definition.taking(table.procedure)
    protocol = definition.protocol
    with file.at("profile"):
        if table.profile is not None:
            profile_of(protocol, table.profile)
    parameters = {}
    for key, value in table.parameters.items():
        with file.at(key, "parameters"):
            parameters[key] = parameter_value(protocol, key, value)
    for key, value in table.rules.items():
        with file.at(key, "rules"):
            rule_of(protocol, key)
            if not isinstance(value, bool):
                raise InputError(f"{key} is true or false, not {value!r}")
    scenario = Scenario(
        name=name,
        title=table.title,
        definition=definition,
        profile=table.profile,
        parameters=parameters,
        rules=table.rules,
        properties=table.properties,
        standard=table.standard,
        symmetry=table.symmetry,
        deadlock=table.deadlock,
        expectation=table.expect,
    )
    absent = scenario.absent()
    _check_goals(file, scenario, absent)
    with file.at("properties"):
        checked = {p.name for kind in chosen(definition, absent, scenario.properties) for p in kind}
    if scenario.deadlock or DEADLOCK in (table.properties or ()):
        checked.add(DEADLOCK)
    for key, named in (
        ("violated", scenario.expectation.violated),
        ("constant", scenario.expectation.constant),
    ):
        with file.at(key, "expect"):
            for name in sorted(named - checked):
                raise InputError(unknown("property", name, checked) + " (of those that this scenario checks)")
    actions = {a.name for a in protocol.actions() if not absent(a)}
    with file.at("impossible", "expect"):
        for name in sorted(scenario.expectation.impossible - actions):
            raise InputError(unknown("action", name, actions) + " (of those that its rules leave)")
    return scenario


def _check_goals(file: _File, scenario: Scenario, absent: Absent) -> None:
    """Raises InputError for an unknown goal, a goal that does not exist here, or a goal among the properties."""
    with file.at(REACHABLE, "expect"):
        chosen_goals(scenario.definition, absent, scenario.expectation.reachable)
    with file.at("properties"):
        for name in goals_among(scenario.definition, scenario.properties or ())[:1]:
            raise InputError(f"{name} is a reachability goal: list it as [expect] {REACHABLE}")


# --- chosen properties, also for the command line -----------------------------------------------------


class Chosen(NamedTuple):
    """The chosen properties of a protocol by kind, without ``deadlock``."""

    invariants: tuple[Invariant, ...]
    step_properties: tuple[StepProperty, ...]
    liveness: tuple[Liveness, ...]


def chosen(definition: Definition, absent: Absent, names: Iterable[str] | None) -> Chosen:
    """The properties with these names; ``names`` None means all that exist, except helpers.

    Raises InputError for an unknown name, or a property that does not exist in this model.
    """
    kinds = INVARIANTS, STEP_PROPERTIES, LIVENESS
    found = list(_named_properties(definition, absent, kinds if names is None else names))
    return Chosen(
        tuple(p for p in found if isinstance(p, Invariant)),
        tuple(p for p in found if isinstance(p, StepProperty)),
        tuple(p for p in found if isinstance(p, Liveness)),
    )


def goals_among(definition: Definition, names: Iterable[str]) -> tuple[str, ...]:
    """The reachability goals in ``names``, and ``REACHABLE`` if it is there (it stands for all goals)."""
    known = {REACHABLE, *(g.name for g in definition.reachable)}
    return tuple(name for name in names if name in known)


def chosen_goals(definition: Definition, absent: Absent, names: Iterable[str]) -> tuple[Goal, ...]:
    """The reachability goals with these names. Raises InputError for a goal that is unknown or does not exist here."""
    by_name = {g.name: g for g in definition.reachable}
    found: dict[str, Goal] = {}
    for name in names:
        if name == REACHABLE:
            found |= {g.name: g for g in definition.reachable if not absent(g)}
        elif (goal := by_name.get(name)) is None:
            raise InputError(unknown(f"reachability goal of {definition.name}", name, by_name))
        elif why := absent(goal):
            raise InputError(f"the goal {name} cannot be reached while {why}")
        else:
            found[name] = goal
    return tuple(found.values())


def _named_properties(
    definition: Definition, absent: Absent, names: Iterable[str]
) -> Iterator[Invariant | StepProperty | Liveness]:
    by_name: dict[str, Invariant | StepProperty | Liveness] = {p.name: p for p in definition.invariants}
    by_name |= {p.name: p for p in definition.step_properties}
    by_name |= {p.name: p for p in (*definition.liveness, *definition.helpers)}
    for name in dict.fromkeys(_spelled_out(definition, absent, names)):
        if name == DEADLOCK:
            continue
        found = by_name.get(name)
        if found is None:
            raise InputError(unknown(f"property of {definition.name}", name, by_name))
        if why := absent(found):
            raise InputError(f"the property {name} does not exist while {why}")
        yield found


def _spelled_out(definition: Definition, absent: Absent, names: Iterable[str]) -> Iterator[str]:
    """The names; the name of a kind, such as ``invariants``, is replaced by the names of its existing properties."""
    for name in names:
        if name in (INVARIANTS, STEP_PROPERTIES, LIVENESS, HELPERS):
            yield from (p.name for p in getattr(definition, name) if not absent(p))
        else:
            yield name


# --- files --------------------------------------------------------------------------------------------


def outline(path: Path) -> dict[str, Any]:
    """The content of a scenario's file, without loading its protocol.

    Raises InputError if the file is unreadable or not TOML.
    """
    return _File(path).table


class _File:
    """A TOML file whose errors name the file and the line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.text = files.read_text(path)
        except FileNotFoundError as wrong:
            raise InputError(f"{path}: {wrong.strerror}") from None

    @cached_property
    def table(self) -> dict[str, Any]:
        """The content of the file as a table."""
        return files.toml(self.path, self.text)

    def line(self, key: str, table: str | None = None) -> int | None:
        """The number of the line with a key or, if there is none, with the table's header; None without either."""
        current, header = None, None
        for number, text in enumerate(self.text.splitlines(), 1):
            if heading := re.match(r"\s*\[+\s*[\"']?([\w.-]+)", text):
                current = heading[1]
                if current in (key, table):
                    header = header or number
            elif current == table and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", text):
                return number
        return header

    def error(self, message: str, key: str | None = None, table: str | None = None) -> InputError:
        """An InputError about this file, with the line of ``key`` if it is not None."""
        line = None if key is None else self.line(key, table)
        return InputError(f"{self.path}{'' if line is None else f':{line}'}: {message}")

    @contextmanager
    def at(self, key: str, table: str | None = None) -> Iterator[None]:
        """While inside, an InputError or ChoiceError becomes an InputError with the file and the line of this key."""
        try:
            yield
        except (InputError, ChoiceError) as wrong:
            name = f"[{table}] " if table else ""
            text = str(wrong) if key in str(wrong) else f"{key}: {wrong}"
            raise self.error(f"{name}{text}", key, table) from None

    def form(self) -> ScenarioTable:
        """The content of the file by key. Raises InputError for an unknown key, or a value of the wrong type."""
        try:
            found = convert(self.table, ScenarioTable)
        except ValidationError as wrong:
            field, message = mismatch(wrong)
            table, _, key = (field or "").partition("[")[0].rpartition(".")
            raise self.error(f"{field}: {message}", key, table or None) from None
        expect = self.table.get("expect", {})
        for what, name, given, form in (
            ("key", None, self.table, ScenarioTable),
            ("key in [expect]", "expect", expect, Expectation),
        ):
            for key in given:
                if key not in form.__struct_fields__:
                    with self.at(key, name):
                        raise InputError(unknown(what, key, form.__struct_fields__))
        return found

    def definition(self, protocol: str) -> Definition:
        """The protocol that the scenario names: a built-in protocol, or a Python file in its folder, which is run."""
        with self.at("protocol"):
            if protocol.endswith(".py"):
                path = self.path.parent / protocol
                if not path.is_file():
                    raise InputError(f"protocol: there is no file {path}")
                catalogue.refuse_foreign(path, self.path.parent, "protocol")
            else:
                return catalogue.load(protocol)
        return catalogue.load_file(path)
