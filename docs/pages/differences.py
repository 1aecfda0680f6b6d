"""The blocks of docs/differences.md: each rule's row, and its section with witnesses and what the explorer finds."""

from __future__ import annotations

from collections.abc import Iterator

from docs.analyses import defects, trunk_findings
from docs.analyses.differences import (
    CONTROLLER,
    EXPLORED,
    FIRST_PHASE,
    MESSAGES,
    TEXT,
    Compared,
    base_model,
    closed,
    comparisons,
    controller_of_trunk,
    defects_of,
    explored,
    findings_of,
    other_rules,
    place_of,
    request,
    rules,
)
from docs.analyses.kept import once
from docs.analyses.side_by_side import in_order
from docs.pages.blocks import Block, code, row, table
from highwater.checker.base.words import settings
from highwater.checker.engines.solver.difference import Witness, only_in_one, outcome, special


def _table() -> Iterator[str]:
    yield from table(("rule", "actions that differ", "found by exploring"), [])
    yield from (row for row, _ in _parts())


def _sections() -> Iterator[str]:
    for _, section in _parts():
        yield from section


@once
def _parts() -> list[tuple[str, list[str]]]:
    """Each rule's row, and its section with witnesses and what the explorer finds."""
    controller_of_trunk()  # of all of them each rule's section tells
    for controllers, base in ((True, TEXT), (True, FIRST_PHASE), (False, TEXT)):
        base_model(controllers, base)
    return in_order(rules(), _told)


def _told(rule: str) -> tuple[str, list[str]]:
    """A rule's row and its section."""
    return _row(rule), list(_section(rule))


def _row(rule: str) -> str:
    asked = comparisons(rule)
    if asked[0].found is None:
        differing = "the states are not alike"
    elif asked[-1].witnesses:
        names = ", ".join(f"`{name}`" for name in asked[-1].witnesses)
        differing = names if len(asked) == 1 else f"none; beside the first phase {names}"
    else:
        differing = "none"
    return row((f"[{rule}](#{rule})", differing, "; ".join(_short(rule)) or "nothing"))


def _short(rule: str) -> Iterator[str]:
    if place_of(rule) is CONTROLLER:
        for example in explored(rule, comparisons(rule)[-1].base)[1]:
            yield f"`{example.name}` {example.depth}"
    yield from (f"`{name}`" for name in closed(rule))
    yield from (f"[{name}](gallery.md#{name})" for name in defects_of(rule))
    yield from (f"[trunk: {f.name}](kafka-trunk.md#{f.name})" for f in findings_of(rule))


def _section(rule: str) -> Iterator[str]:
    place = place_of(rule)
    said = request(place).scenario.protocol.rules[rule]
    trunk = "on" if other_rules(place)[rule] else "off"
    yield f"\n## {rule}\n"
    yield f"{said.source}. {said.sentence} In Kafka trunk it is {trunk}."
    for it in comparisons(rule):
        beside = "KIP-966" if it.base == TEXT else "KIP-966 without unclean recovery (966.15)"
        if it.found is None:
            fields = ", ".join(f"`{path}`" for path in only_in_one(it.first, it.second))
            yield f"\nThe states are not alike, so they cannot be compared one by one: only one has {fields}."
            continue
        equal = [f"`{name}`" for name, w in it.found.items() if w is None]
        if not it.witnesses:
            yield f"\nBeside {beside} it changes nothing: all {len(equal)} actions are equal in all states."
            continue
        yield f"\nBeside {beside} {len(it.witnesses)} of {len(it.found)} actions differ:\n"
        told = (_witness(it, name, witness) for name, witness in it.witnesses.items())
        yield from table(("what happens", "in the state", *_sides(it)), told)
    yield "\nThe explorer:\n"
    yield from _found(rule)


def _sides(it: Compared) -> Iterator[str]:
    for side, model in (("KIP-966", it.first), ("trunk", it.second)):
        yield f"{side} (rule {'on' if it.rule in model.protocol.rules_on else 'off'})"


def _witness(it: Compared, name: str, witness: Witness) -> Iterator[str]:
    yield f"`{name}`: {witness.sentence}"
    yield code(special(it.first, witness) or ["the initial one"])
    for after in (witness.first, witness.second):
        yield "cannot be taken" if after is None else code(outcome(it.first, witness, after))


def _found(rule: str) -> Iterator[str]:
    if place_of(rule) is CONTROLLER:
        base = comparisons(rule)[-1].base
        states, examples = explored(rule, base)
        bounds = f"`{CONTROLLER[0]}` with {settings({**CONTROLLER[1], **EXPLORED})}, profile `{base}`"
        if examples:
            for example in examples:
                yield (
                    f"- `{example.name}` ({example.source}) is violated at depth {example.depth}, "
                    f"within {bounds} and this rule taken over. {example.meaning}"
                )
        else:
            yield f"- No property is violated in the {states:,} states within {bounds} and this rule taken over."
    for name in closed(rule):
        violated = ", ".join(f"`{e.name}` at depth {e.depth}" for e in controller_of_trunk()[name])
        yield f"- `{name}`, the controller of Kafka trunk as it is: {violated}; not with the proposal's rule."
    for name in defects_of(rule):
        example = defects.find(name).examples[0]
        yield f"- [{name}](gallery.md#{name}): `{example.name}` is violated at depth {example.depth}."
    for finding in findings_of(rule):
        violated = ", ".join(
            f"`{e.name}` at depth {e.depth}" for e in trunk_findings.found(finding.name).examples
        )
        together = " or ".join(
            " + ".join(f"`{r}`" for r in closing) for closing in finding.closes if rule in closing
        )
        yield (
            f"- [{finding.name}](kafka-trunk.md#{finding.name}), Kafka trunk as it is: {violated}; "
            f"closed by {together}."
        )
    if place_of(rule) is not CONTROLLER and not defects_of(rule) and not findings_of(rule):
        yield "- No scenario shows that it matters."


BLOCKS: dict[str, Block] = {
    "bounds": lambda: settings(CONTROLLER[1]),
    "message_bounds": lambda: settings(MESSAGES[1]),
    "table": _table,
    "rules": _sections,
}
