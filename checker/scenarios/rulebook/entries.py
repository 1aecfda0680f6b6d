"""A rule, a family of rules or a proposal as plain data: for people, and for JSON."""

from __future__ import annotations

import difflib
import re
from typing import Any

from highwater.checker.scenarios.catalogue import Definition
from highwater.checker.scenarios.rulebook import audited, code, sources
from highwater.model.language.rulebook import NumberedRule, Rulebook, RuleFamily, RuleSource
from highwater.model.rulebook import RULEBOOK

Entry = dict[str, Any]


def names() -> list[str]:
    """What can be asked for: numbers, prefixes of families, proposals."""
    return [*RULEBOOK, *(f.prefix for f in RULEBOOK.families), *RULEBOOK.cited]


def listed() -> list[Entry]:
    """Every rule of the book, in short."""
    return [_short(rule, RULEBOOK) for rule in RULEBOOK.values()]


def find(name: str, own: Definition | None = None, *, with_tests: bool = True) -> Entry | None:
    """A rule (``966.4``), a family (``966``, ``B``) or a proposal (``KIP-966``) in full; None where there is none.

    ``own`` is a protocol from a file, whose rulebook it is then. Which tests name a rule takes a look into all of
    them: without ``with_tests`` none is named.
    """
    book = RULEBOOK if own is None else own.protocol.rulebook
    if not isinstance(book, Rulebook):
        return None
    asked = {name.strip(), name.strip().upper()}
    for wanted in asked & book.keys():
        return number(wanted, book, sources.definitions() if own is None else (own,), with_tests=with_tests)
    for family in book.families:
        if asked & {family.prefix, f"KIP-{family.prefix}"}:
            return _family(family, book)
    for wanted in asked & book.cited.keys():
        return _proposal(book.cited[wanted], book)
    return None


def unknown_number(name: str) -> str | None:
    """What to say of what looks like a number and is none: one line with those near it. None: it does not look so."""
    if not re.fullmatch(r"(KIP-)?\d+(\.\d+)?|[A-Z]{1,2}\d+(\.\d+)?|(KIP|KAFKA)-\w+", name.strip().upper()):
        return None
    near = difflib.get_close_matches(name.strip().upper(), names(), n=3, cutoff=0.6)
    see = f"; near it: {', '.join(near)}" if near else "; `highwater list --kind numbers` has all"
    return f"unknown rule number {name!r}{see}"


def number(name: str, book: Rulebook, within: sources.Definitions, *, with_tests: bool = True) -> Entry:
    """A rule of the book with where these protocols state it and what goes with it."""
    rule = book[name]
    switches = sources.switches(name, within)
    actions, invariants, of_steps, liveness = (
        sources.named(kind, name, within) for kind in ("actions", "invariants", "step_properties", "liveness")
    )
    properties = *invariants, *of_steps, *liveness
    helpers = sources.helpers(name)
    broken = {(p, e["name"]) for e in properties for p in e["protocols"]}
    scenarios = sources.scenarios({(p, e["name"]) for e in switches for p in e["protocols"]}, broken)
    words = [e["name"] for e in (*switches, *actions, *properties, *helpers, *scenarios)]
    return {
        **_short(rule, book),
        "states": rule.states,
        "why": rule.why,
        "beyond": rule.beyond or None,
        "from": [{"name": p.name, "title": p.title, "link": p.link} for p in book.proposals(name)],
        "section": rule.section or None,
        "quote": rule.quote or None,
        "sentences": audited.of_rule(name) if book is RULEBOOK else [],
        "functions": code.functions(name),
        "switches": switches,
        "actions": actions,
        "invariants": invariants,
        "step_properties": of_steps,
        "liveness": liveness,
        "helpers": helpers,
        "scenarios": scenarios,
        "gallery": code.gallery(name, [e["name"] for e in scenarios]),
        "tests": code.tests(name, words) if with_tests else [],
    }


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
    """A proposal that has no family of its own: the rules that cite it."""
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
