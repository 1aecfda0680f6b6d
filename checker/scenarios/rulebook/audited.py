"""Sentences of the proposals as plain data: where the model states each, and what notices a mistake in it."""

from __future__ import annotations

from highwater.checker.scenarios.rulebook import code, sources
from highwater.checker.scenarios.rulebook.code import Entry
from highwater.invariants.catalogue import catalogue
from highwater.model.language.errors import LanguageError
from highwater.model.language.rulebook import AuditedSentence, numbers
from highwater.model.rulebook import AUDIT


def of_rule(number: str) -> list[Entry]:
    """The sentences of a rule."""
    return [entry(s) for s in AUDIT.of_rule(number)]


def entry(sentence: AuditedSentence) -> Entry:
    """A sentence with its places in the model and what notices a mistake.

    Raises LanguageError if it names a function, switch, property or scenario that is not there.
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
    found = code.named(name)
    if len(found) != 1:
        many = f"{len(found)} functions" if found else "no function"
        raise _wrong(sentence, f"at names {name!r}, which is {many} of the model")
    return {"name": name.rpartition(".")[2], "place": found[0]}


def _by_switch(sentence: AuditedSentence, switch: str) -> Entry:
    """The scenario that shows the defect without a switch: of several the one that takes off least."""
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
        for d in sources.definitions()
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
