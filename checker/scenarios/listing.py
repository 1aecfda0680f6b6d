"""Everything that has a name on the command line, as plain data, for ``list`` and ``show``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from highwater.checker.base.problems import InputError
from highwater.checker.scenarios import catalogue, rulebook, scenario_files
from highwater.checker.scenarios.catalogue import Definition
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import DEADLOCK, DEADLOCK_MEANING
from highwater.errors import unknown
from highwater.invariants.catalogue import observed
from highwater.model import registry
from highwater.model.language import (
    Action,
    Array,
    Invariant,
    Liveness,
    Model,
    Option,
    Parameter,
    Protocol,
    StepProperty,
    Struct,
)
from highwater.model.language.rulebook import numbers

KINDS = (
    "scenarios", "protocols", "parameters", "rules", "numbers", "invariants", "step_properties", "liveness",
    "helpers", "reachable", "observed", "actions",
)  # fmt: skip
"""The kinds of names. ``rules`` are switches of protocols, ``numbers`` are rules of the rulebook, and ``observed`` are
properties that replay checks."""

PROPERTIES = ("invariants", "step_properties", "liveness", "helpers")
"""The kinds of properties that a scenario can check."""

_PARTS = ("parameters", "rules", *PROPERTIES, "reachable", "actions")
"""The kinds of a protocol's named parts."""

Entry = dict[str, Any]
Property = Invariant | StepProperty | Liveness


def entries(kind: str) -> list[Entry]:
    """The entries of one of ``KINDS``, as ``list --json`` writes them."""
    if kind == "scenarios":
        titles = scenario_files.titles()
        return [{"name": n, "title": title, "standard": std} for n, (title, std) in titles.items()]
    if kind == "protocols":
        return [{"name": d.name, "meaning": meaning(d.protocol)} for d in catalogue.definitions()]
    if kind == "numbers":
        return rulebook.listed()
    if kind == "observed":
        return [_observed(name) for name in observed()]
    return [entry for definition in catalogue.definitions() for entry in _parts(definition, kind)]


def find(name: str) -> list[Entry]:
    """The full entries for a name, ``protocol:name``, ``file:name``, file or rule number; empty if it is unknown.

    Raises InputError if a file is missing, or for ``file:name`` if the file has nothing with this name.
    """
    of, _, part = name.rpartition(":")
    if name.endswith(".py"):
        return [protocol(catalogue.load_file(Path(name)))]
    if of.endswith(".py"):
        return _in_file(catalogue.load_file(Path(of)), part)
    if name.endswith(".toml") or name in catalogue.scenario_files():
        return [scenario(name)]
    if name in registry.NAMES:
        return [protocol(catalogue.load(name))]
    numbered = rulebook.find(name)
    if numbered is not None:
        return [numbered]
    found = [e for d in catalogue.definitions() if of in ("", d.name) for e in _of_protocol(d, part)]
    if name in observed():
        found.append(_observed(name))
    return [*found, _of_scenarios(name)] if name in _unlisted() else found


def _in_file(definition: Definition, name: str) -> list[Entry]:
    """The entries with this name in a user's protocol or its rulebook. Raises InputError if there is none."""
    numbered = rulebook.find(name, definition)
    if found := [numbered] if numbered is not None else _of_protocol(definition, name):
        return found
    known = [entry["name"] for kind in _PARTS for entry in _parts(definition, kind)]
    raise InputError(unknown("name", name, known, f"`highwater show {definition.file}` lists what it has"))


def _of_protocol(definition: Definition, name: str) -> list[Entry]:
    parts = (entry for kind in _PARTS for entry in _parts(definition, kind))
    return [_in_full(definition, entry) for entry in parts if entry["name"] == name]


def names() -> list[str]:
    """The names of all entries of all ``KINDS``, and of the properties that belong to no protocol."""
    return [*dict.fromkeys(entry["name"] for kind in KINDS for entry in entries(kind)), *_unlisted()]


def scenario(name: str) -> Entry:
    """The entry of a scenario: its protocol, parameters with their ranges, rules, properties and expectations."""
    found = scenario_files.find(name)
    request = Request.of(found, Overrides())
    kind = found.protocol
    expectation = found.expectation
    properties: tuple[Property, ...] = (*request.invariants, *request.step_properties, *request.liveness)
    return {
        "kind": "scenario",
        "name": found.name,
        "title": found.title or meaning(found.protocol),
        "protocol": found.definition.name,
        "profile": found.profile,
        "standard": found.standard,
        "symmetry": found.symmetry,
        "deadlock": request.deadlock,
        "parameters": [
            {"name": n, "value": request.parameters[n], **_range(p)} for n, p in kind.parameters.items()
        ],
        "rules": [
            {"name": n, "on": request.rules[n], "source": r.source, "sentence": r.sentence}
            for n, r in kind.rules.items()
        ],
        "properties": [_property(found.definition, p) for p in properties],
        "goals": [_property(found.definition, goal) for goal in request.goals],
        **request.checked.as_json(),
        "promise": {
            "violated": sorted(expectation.violated),
            "reachable": list(expectation.reachable),
            "distinct_states": expectation.distinct_states,
            "depth": expectation.depth,
        },
    }


def protocol(definition: Definition) -> Entry:
    """The entry of a protocol: parameters, profiles with their rules, rules, properties, actions, and scenarios."""
    kind = definition.protocol
    return {
        "kind": "protocol",
        "name": definition.name,
        "meaning": meaning(kind),
        "state": list(_fields(kind().state)),
        "parameters": [{"name": n, "default": p.default, **_range(p)} for n, p in kind.parameters.items()],
        "profiles": [
            {"name": n, "meaning": p.meaning, "rules": [r for r in kind.rules if r in p.rules]}
            for n, p in kind.profiles.items()
        ],
        **{kind: _parts(definition, kind) for kind in _PARTS if kind != "parameters"},
        "scenarios": _scenarios(definition),
    }


def _fields(struct: Struct, path: str = "") -> Iterator[Entry]:
    """The fields of a state with their types; ``path[index]`` stands for one field for each value of the index.

    The entry's ``absent`` is True if the field exists only with other parameters or rules than the defaults.
    """
    for name, type_ in (*struct.fields.items(), *struct.absent.items()):
        full, within = f"{path}.{name}".lstrip("."), type_
        while isinstance(within, Array | Option):
            full += f"[{within.index.name}]" if isinstance(within, Array) else ""
            within = within.element if isinstance(within, Array) else within.content_type
        absent, about = name in struct.absent, struct.meanings[name]
        shown = f"Option({within})" if isinstance(type_, Option) else str(within)
        if about or not isinstance(within, Struct):
            yield {"name": full, "type": shown, "meaning": about, "absent": absent}
        if isinstance(within, Struct) and not absent:
            yield from _fields(within, full)


def meaning(thing: object) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def _parts(definition: Definition, kind: str) -> list[Entry]:
    of = {"protocol": definition.name}
    if kind == "parameters":
        parameters = definition.protocol.parameters.items()
        return [
            {"kind": "parameter", "name": n, **of, "default": p.default, **_range(p)} for n, p in parameters
        ]
    if kind == "rules":
        rules = definition.protocol.rules.items()
        return [
            {"kind": "rule", "name": n, **of, "source": r.source, "sentence": r.sentence} for n, r in rules
        ]
    if kind == "actions":
        return [
            _stated(definition, "action", a, parameters=dict(a.domains), says=a.says)
            for a in definition.protocol.actions()
        ]
    properties: Sequence[Property] = getattr(definition, kind)
    return [
        {**_property(definition, stated), "role": "helper" if kind == "helpers" else None}
        for stated in properties
    ]


def _range(parameter: Parameter) -> Entry:
    return {"low": parameter.low, "high": parameter.high, "meaning": parameter.meaning}


def _stated(definition: Definition, kind: str, thing: Property | Action, **more: object) -> Entry:
    of = {"protocol": definition.name, "source": thing.source, "rule": thing.rule}
    return {"kind": kind, "name": thing.name, **of, **more, "meaning": thing.meaning}


def _property(definition: Definition, stated: Property) -> Entry:
    if isinstance(stated, Liveness):
        more = {
            "says": str(stated.kind),
            "parameters": dict(stated.domains),
            "fair": [str(f) for f in stated.fair],
        }
        return _stated(definition, "liveness", stated, **more)
    of_states = isinstance(stated, Invariant)
    if stated.goal:
        return _stated(definition, "goal", stated, of="states" if of_states else "steps")
    return _stated(definition, "invariant" if of_states else "step property", stated)


def _in_full(definition: Definition, entry: Entry) -> Entry:
    """The entry with further facts for its kind, such as the profiles of a rule or the guards of an action."""
    kind = definition.protocol
    if entry["kind"] == "rule":
        on = [n for n, p in kind.profiles.items() if entry["name"] in p.rules]
        return {**entry, "profiles": on}
    if entry["kind"] == "action":
        return {**entry, "guards": _guards(kind, entry["name"])}
    if entry["kind"] == "parameter":
        return {**entry, "scenarios": _set_in(definition, entry["name"])}
    if entry["kind"] == "goal":
        scenarios = [
            s.name for s in _checking().get(entry["name"], ()) if s.definition.name == definition.name
        ]
        return {**entry, "expected_in": scenarios}
    return {**entry, **_scenarios_of(entry["name"], definition.name)}


def _set_in(definition: Definition, parameter: str) -> dict[str, int]:
    """The scenarios of a protocol that set a parameter, each with the value."""
    values = {n: scenario_files.find(n).parameters.get(parameter) for n in _scenarios(definition)}
    return {name: value for name, value in values.items() if value is not None}


def _scenarios(definition: Definition) -> list[str]:
    place = definition.name.replace(".", "/")
    return [n for n in catalogue.scenario_files() if n.rpartition("/")[0] == place]


@cache
def _unlisted() -> dict[str, str]:
    """The properties that only scenarios have, with their meanings: ``deadlock``, and the results of procedures."""
    results = [p.result for d in catalogue.definitions() for p in d.protocol.procedures.values()]
    return {DEADLOCK: DEADLOCK_MEANING, **{r.name: r.meaning for r in results}}


def _of_scenarios(name: str) -> Entry:
    """The entry of a property that only scenarios have."""
    more = {"kind": "deadlock", "name": name, "protocol": None, "source": "", "rule": None}
    return {**more, "meaning": _unlisted()[name], **_scenarios_of(name, None)}


def _observed(name: str) -> Entry:
    """The entry of a property that replay checks.

    ``checked_by`` has each kind of log in which replay checks the property, with the rule numbers for this kind.
    """
    stated = observed()[name]
    source = ", ".join(dict.fromkeys(n for named in stated.checked_by.values() for n in numbers(named)))
    more = {"kind": "observed", "name": name, "protocol": None, "source": source}
    return {**more, "checked_by": stated.checked_by, "meaning": stated.meaning}


def _scenarios_of(name: str, protocol: str | None) -> Entry:
    """The scenarios that check a property, and those that expect its violation.

    If ``protocol`` is not None, only scenarios of this protocol are listed.
    """
    scenarios = [s for s in _checking().get(name, ()) if protocol in (None, s.definition.name)]
    violated = [s.name for s in scenarios if name in s.expectation.violated]
    return {"asked_in": [s.name for s in scenarios], "violated_in": violated}


@cache
def _checking() -> dict[str, list[scenario_files.Scenario]]:
    """For each property and goal, the built-in scenarios that check it."""
    found: dict[str, list[scenario_files.Scenario]] = {}
    for file in catalogue.scenario_files():
        request = Request.of(scenario_files.find(file), Overrides())
        for name in (*request.properties, *(goal.name for goal in request.goals)):
            found.setdefault(name, []).append(request.scenario)
    return found


def _guards(kind: type[Protocol], action: str) -> list[Entry]:
    """An entry for each guard of an action in any profile, in the order in which the guards first appear.

    Its ``profiles`` are the profiles that have the guard. If the protocol has no profiles, all rules are on. A guard
    that always holds is left out.
    """
    stated = [a for a in kind.actions() if a.name == action]
    alone: type[Protocol] = type(kind.__name__, (kind,), {"actions": classmethod(lambda cls: stated)})
    rules = {name: profile.rules for name, profile in kind.profiles.items()} or {"": frozenset(kind.rules)}
    found: dict[str, list[str]] = {}
    for name, on in rules.items():
        for guard in dict.fromkeys(g.name for i in Model(alone(None, on)).instances for g in i.guards):
            found.setdefault(guard, []).append(name)
    return [{"name": guard, "profiles": [p for p in where if p]} for guard, where in found.items()]
