"""A rule, a family of rules or a proposal, with all places that refer to it, as plain data.

The places are switches, actions, properties, scenarios and docstrings.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import itertools
import pkgutil
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from highwater import checker, invariants
from highwater.checker.scenarios import catalogue, scenario_files
from highwater.checker.scenarios.catalogue import Definition
from highwater.invariants.catalogue import catalogue as properties
from highwater.invariants.statements import Statement
from highwater.model.language import Invariant, LanguageError, Liveness, Rulebook, StepProperty
from highwater.model.language.errors import place_of
from highwater.model.language.rulebook import AuditedSentence, NumberedRule, RuleFamily, RuleSource, numbers
from highwater.model.rulebook import AUDIT, RULEBOOK

Entry = dict[str, Any]


def names() -> list[str]:
    """The names that ``find`` knows: rule numbers, prefixes of families, proposals."""
    return [*RULEBOOK, *(f.prefix for f in RULEBOOK.families), *RULEBOOK.cited]


def listed() -> list[Entry]:
    """The short entry of every rule in the rulebook."""
    return [_short(rule, RULEBOOK) for rule in RULEBOOK.values()]


def find(name: str, own: Definition | None = None) -> Entry | None:
    """The full entry of a rule (``966.4``), a family (``966``, ``B``) or a proposal (``KIP-966``), or None.

    ``own`` is a protocol from a user's file; then its rulebook is used.
    """
    book = RULEBOOK if own is None else own.protocol.rulebook
    if not isinstance(book, Rulebook):
        return None
    spellings = {name.strip(), name.strip().upper()}
    for wanted in spellings & book.keys():
        return number(wanted, book, catalogue.definitions() if own is None else (own,))
    for family in book.families:
        if spellings & {family.prefix, f"KIP-{family.prefix}"}:
            return _family(family, book)
    for wanted in spellings & book.cited.keys():
        return _proposal(book.cited[wanted], book)
    return None


def unknown_number(name: str) -> str | None:
    """The error message for an unknown rule number, with similar numbers; None if the text is no rule number."""
    if not re.fullmatch(r"(KIP-)?\d+(\.\d+)?|[A-Z]{1,2}\d+(\.\d+)?|(KIP|KAFKA)-\w+", name.strip().upper()):
        return None
    near = difflib.get_close_matches(name.strip().upper(), names(), n=3, cutoff=0.6)
    see = f"; near it: {', '.join(near)}" if near else "; `highwater list --kind numbers` has all"
    return f"unknown rule number {name!r}{see}"


def number(name: str, book: Rulebook, within: Definitions) -> Entry:
    """The full entry of a rule, with the places in the protocols ``within`` that state or mention the rule."""
    rule = book[name]
    switched = switches(name, within)
    kinds = ("actions", "invariants", "step_properties", "liveness")
    stated = {kind: named(kind, name, within) for kind in kinds}
    sets, broken = (
        {(p, e["name"]) for e in entries for p in e["protocols"]}
        for entries in (switched, itertools.chain(*stated.values()))
    )
    return {
        **_short(rule, book),
        "states": rule.states,
        "why": rule.why,
        "beyond": rule.beyond or None,
        "from": [_cited(p) for p in book.proposals(name)],
        "section": rule.section or None,
        "quote": rule.quote or None,
        "sentences": sentences_of(name) if book is RULEBOOK else [],
        "functions": functions(name),
        "switches": switched,
        **stated,
        "helpers": helpers(name),
        "scenarios": scenarios(sets, broken),
    }


@dataclass(frozen=True)
class RulePart:
    """A part of the model that refers to a rule. Fields that the kind of part does not have are empty."""

    name: str
    protocols: str = ""
    place: str = ""
    text: str = ""


def parts(entry: Entry) -> Iterator[tuple[str, list[RulePart]]]:
    """The parts of the model in the full entry of a rule, by kind, without empty kinds."""
    for kind, title in _KINDS.items():
        if found := [_part(kind, e) for e in entry[kind]]:
            yield title, found
    for title, states in (("stated by", True), ("mentioned by", False)):
        if found := [
            RulePart(e["name"], place=e["place"]) for e in entry["functions"] if e["states"] is states
        ]:
            yield title, found


_KINDS = {
    "switches": "switches, for --rule NAME=off",
    "actions": "actions",
    "invariants": "invariants",
    "step_properties": "properties of steps",
    "liveness": "liveness",
    "helpers": "in proofs and replay",
    "scenarios": "scenarios",
}


def _part(kind: str, entry: Entry) -> RulePart:
    if kind == "scenarios":
        return RulePart(entry["name"], text=entry["title"])
    text = "" if kind in ("actions", "helpers") else entry["meaning"]
    return RulePart(entry["name"], ", ".join(entry.get("protocols", ())), entry["place"] or "", text)


def _short(rule: NumberedRule, book: Rulebook) -> Entry:
    cited = [p.name for p in book.proposals(rule.number)]
    return {
        "kind": "number",
        "name": rule.number,
        "title": rule.title,
        "family": book.family(rule.number).prefix,
        "proposals": cited,
    }


def _family(family: RuleFamily, book: Rulebook) -> Entry:
    return {
        "kind": "family",
        "name": f"KIP-{family.prefix}" if family.prefix.isdigit() else family.prefix,
        "title": family.title,
        "about": family.about,
        "from": [_cited(book.cited[name]) for name in family.proposals],
        "numbers": [_short(rule, book) for rule in book.of(family)],
        "others": [
            _short(rule, book)
            for rule in book.values()
            if family.prefix.isdigit()
            and not family.has(rule.number)
            and any(p.name in family.proposals for p in book.proposals(rule.number))
        ],
    }


def _proposal(proposal: RuleSource, book: Rulebook) -> Entry:
    """The entry of a proposal without a family: the rules that cite the proposal."""
    return {
        "kind": "family",
        "name": proposal.name,
        "title": proposal.title,
        "about": "",
        "from": [_cited(proposal)],
        "numbers": [_short(r, book) for r in book.values() if proposal in book.proposals(r.number)],
        "others": [],
    }


def _cited(proposal: RuleSource) -> Entry:
    return {"name": proposal.name, "title": proposal.title, "link": proposal.link}


# --- sentences of the proposals -----------------------------------------------------------------------


def sentences_of(number: str) -> list[Entry]:
    """The audited sentences that state the rule with this number, as plain data."""
    return [sentence_entry(s) for s in AUDIT.of_rule(number)]


def sentence_entry(sentence: AuditedSentence) -> Entry:
    """An audited sentence as plain data, with its places in the model and the properties that detect a mistake.

    Raises LanguageError if the sentence names a function, switch, property or scenario that does not exist.
    """
    return {
        "proposal": sentence.proposal,
        "section": sentence.section,
        "says": sentence.says,
        "rule": sentence.rule,
        "status": sentence.status,
        "how": sentence.how or None,
        "places": [_place(sentence, name) for name in sentence.at],
        "noticed": [
            *(_by_switch(sentence, switch) for switch in sentence.switches),
            *(_by_name(sentence, name) for name in sentence.noticed),
        ],
    }


def _place(sentence: AuditedSentence, name: str) -> Entry:
    found = defined_at(name)
    if len(found) != 1:
        many = f"{len(found)} functions" if found else "no function"
        raise _wrong(sentence, f"at names {name!r}, which is {many} of the model")
    return {"name": name.rpartition(".")[2], "place": found[0]}


def _by_switch(sentence: AuditedSentence, switch: str) -> Entry:
    """The scenario that sets a switch and expects a violation or a reached goal, as plain data.

    Of several scenarios, the one that sets fewest rules. Raises LanguageError if there is none.
    """
    protocols = _protocols(sentence, switch)
    shown = [
        (name, outline)
        for name, outline in outlines().items()
        if outline.get("protocol") in protocols and switch in outline.get("rules", {}) and _violated(outline)
    ]
    if not shown:
        raise _wrong(sentence, f"no scenario shows a violation without the switch {switch!r}")
    name, outline = min(shown, key=lambda s: (len(s[1]["rules"]), "/defect-" not in s[0], s[0]))
    others = sorted(set(outline["rules"]) - {switch})
    return {"switch": switch, "with": others, "scenario": name, "violates": _violated(outline)}


def _protocols(sentence: AuditedSentence, switch: str) -> set[str]:
    found = {
        d.name
        for d in catalogue.definitions()
        if (rule := d.protocol.rules.get(switch)) and sentence.rule in numbers(rule.source)
    }
    if not found:
        raise _wrong(sentence, f"switches names {switch!r}, which is no switch of this rule")
    return found


def _by_name(sentence: AuditedSentence, name: str) -> Entry:
    if name in outlines():
        violated = _violated(outlines()[name])
        return {"switch": None, "with": [], "scenario": name, "violates": violated}
    if name not in properties():
        raise _wrong(sentence, f"noticed names {name!r}, which is no property and no scenario")
    return {"switch": None, "with": [], "scenario": None, "violates": [name]}


def _violated(outline: Entry) -> list[str]:
    expect = outline.get("expect", {})
    return [*expect.get("violated", ()), *expect.get("reachable", ())]


def _wrong(sentence: AuditedSentence, message: str) -> LanguageError:
    return LanguageError(f"sentence “{sentence.says}” ({sentence.rule}): {message}", str(AUDIT.path))


ROOT = Path(checker.__file__).resolve().parent.parent
"""The parent of the folders model, invariants, checker and traces: the source tree, or the installed package."""

FOLDERS = ("model", "invariants", "traces")


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
            text = "" if stated else " ".join((ast.get_docstring(node) or "").split())
            yield f"{within}{node.name}", node.lineno, text
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
