"""A rule, a family of rules or a proposal as plain data: for people, and for JSON."""

from __future__ import annotations

import difflib
import re
from typing import Any

from highwater.checker.asking.rulebook import code, sources
from highwater.model.language.rulebook import NumberedRule, RuleFamily, RuleSource
from highwater.model.rulebook import RULEBOOK

Entry = dict[str, Any]


def names() -> list[str]:
    """What can be asked for: numbers, prefixes of families, proposals."""
    return [*RULEBOOK, *(f.prefix for f in RULEBOOK.families), *RULEBOOK.cited]


def listed() -> list[Entry]:
    """Every rule of the book, in short."""
    return [_short(rule) for rule in RULEBOOK.values()]


def find(name: str, *, with_tests: bool = True) -> Entry | None:
    """A rule (``966.4``), a family (``966``, ``B``) or a proposal (``KIP-966``) in full; None where there is none.

    Which tests name a rule takes a look into all of them: without ``with_tests`` none is named.
    """
    name = name.strip().upper()
    if name in RULEBOOK:
        return number(name, with_tests=with_tests)
    for family in RULEBOOK.families:
        if name in (family.prefix, f"KIP-{family.prefix}"):
            return _family(family)
    proposal = RULEBOOK.cited.get(name)
    return None if proposal is None else _proposal(proposal)


def unknown_number(name: str) -> str | None:
    """What to say of what looks like a number and is none: one line with those near it. None: it does not look so."""
    if not re.fullmatch(r"(KIP-)?\d+(\.\d+)?|[A-Z]{1,2}\d+(\.\d+)?|(KIP|KAFKA)-\w+", name.strip().upper()):
        return None
    near = difflib.get_close_matches(name.strip().upper(), names(), n=3, cutoff=0.6)
    see = f"; near it: {', '.join(near)}" if near else "; `highwater list --kind numbers` has all"
    return f"unknown rule number {name!r}{see}"


def number(name: str, *, with_tests: bool = True) -> Entry:
    """A rule of the book with where it is stated and what goes with it."""
    rule = RULEBOOK[name]
    switches = sources.switches(name)
    actions, invariants, of_steps, liveness = (
        sources.named(kind, name) for kind in ("actions", "invariants", "step_properties", "liveness")
    )
    properties = *invariants, *of_steps, *liveness
    helpers = sources.helpers(name)
    broken = {(p, e["name"]) for e in properties for p in e["protocols"]}
    scenarios = sources.scenarios({(p, e["name"]) for e in switches for p in e["protocols"]}, broken)
    words = [e["name"] for e in (*switches, *actions, *properties, *helpers, *scenarios)]
    return {
        **_short(rule),
        "states": rule.states,
        "why": rule.why,
        "beyond": rule.beyond or None,
        "from": [{"name": p.name, "title": p.title, "link": p.link} for p in RULEBOOK.proposals(name)],
        "section": rule.section or None,
        "quote": rule.quote or None,
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


def _short(rule: NumberedRule) -> Entry:
    cited = [p.name for p in RULEBOOK.proposals(rule.number)]
    return {
        "kind": "number",
        "name": rule.number,
        "title": rule.title,
        "family": RULEBOOK.family(rule.number).prefix,
        "proposals": cited,
    }


def _family(family: RuleFamily) -> Entry:
    return {
        "kind": "family",
        "name": f"KIP-{family.prefix}" if family.prefix.isdigit() else family.prefix,
        "title": family.title,
        "about": family.about,
        "from": [_cited(RULEBOOK.cited[name]) for name in family.proposals],
        "numbers": [_short(rule) for rule in RULEBOOK.of(family)],
        "others": [
            _short(rule)
            for rule in RULEBOOK.values()
            if family.prefix.isdigit()
            and not family.has(rule.number)
            and any(p.name in family.proposals for p in RULEBOOK.proposals(rule.number))
        ],
    }


def _proposal(proposal: RuleSource) -> Entry:
    """A proposal that has no family of its own: the rules that cite it."""
    return {
        "kind": "family",
        "name": proposal.name,
        "title": proposal.title,
        "about": "",
        "from": [_cited(proposal)],
        "numbers": [_short(r) for r in RULEBOOK.values() if proposal in RULEBOOK.proposals(r.number)],
        "others": [],
    }


def _cited(proposal: RuleSource) -> Entry:
    return {"name": proposal.name, "title": proposal.title, "link": proposal.link}
