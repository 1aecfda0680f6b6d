"""A rule, a family of rules or a proposal with all that refers to it, as plain data."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from highwater.checker.scenarios import catalogue as protocols
from highwater.checker.scenarios import rulebook_sources as sources
from highwater.checker.scenarios.catalogue import Definition
from highwater.invariants.catalogue import catalogue
from highwater.model.language import LanguageError, Rulebook
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
    asked = {name.strip(), name.strip().upper()}
    for wanted in asked & book.keys():
        return number(wanted, book, protocols.definitions() if own is None else (own,))
    for family in book.families:
        if asked & {family.prefix, f"KIP-{family.prefix}"}:
            return _family(family, book)
    for wanted in asked & book.cited.keys():
        return _proposal(book.cited[wanted], book)
    return None


def unknown_number(name: str) -> str | None:
    """The error message for an unknown rule number, with similar numbers; None if the text is no rule number."""
    if not re.fullmatch(r"(KIP-)?\d+(\.\d+)?|[A-Z]{1,2}\d+(\.\d+)?|(KIP|KAFKA)-\w+", name.strip().upper()):
        return None
    near = difflib.get_close_matches(name.strip().upper(), names(), n=3, cutoff=0.6)
    see = f"; near it: {', '.join(near)}" if near else "; `highwater list --kind numbers` has all"
    return f"unknown rule number {name!r}{see}"


def number(name: str, book: Rulebook, within: sources.Definitions) -> Entry:
    """The full entry of a rule, with the places in the protocols ``within`` that state or mention the rule."""
    rule = book[name]
    switches = sources.switches(name, within)
    kinds = ("actions", "invariants", "step_properties", "liveness")
    stated = {kind: sources.named(kind, name, within) for kind in kinds}
    sets, broken = (
        {(p, e["name"]) for e in entries for p in e["protocols"]}
        for entries in (switches, itertools.chain(*stated.values()))
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
        "functions": sources.functions(name),
        "switches": switches,
        **stated,
        "helpers": sources.helpers(name),
        "scenarios": sources.scenarios(sets, broken),
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
    found = sources.defined_at(name)
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
        for name, outline in sources.outlines().items()
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
        for d in protocols.definitions()
        if (rule := d.protocol.rules.get(switch)) and sentence.rule in numbers(rule.source)
    }
    if not found:
        raise _wrong(sentence, f"switches names {switch!r}, which is no switch of this rule")
    return found


def _by_name(sentence: AuditedSentence, name: str) -> Entry:
    if name in sources.outlines():
        violated = _violated(sources.outlines()[name])
        return {"switch": None, "with": [], "scenario": name, "violates": violated}
    if name not in catalogue():
        raise _wrong(sentence, f"noticed names {name!r}, which is no property and no scenario")
    return {"switch": None, "with": [], "scenario": None, "violates": [name]}


def _violated(outline: Entry) -> list[str]:
    expect = outline.get("expect", {})
    return [*expect.get("violated", ()), *expect.get("reachable", ())]


def _wrong(sentence: AuditedSentence, message: str) -> LanguageError:
    return LanguageError(f"sentence “{sentence.says}” ({sentence.rule}): {message}", str(AUDIT.path))
