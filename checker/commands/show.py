"""``highwater show``: print a scenario, a protocol, a rule, a property, an action or a rule number in full."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import click

from highwater.checker.base import text as terminal
from highwater.checker.base.files import JsonOutput
from highwater.checker.base.problems import InputError, Status
from highwater.checker.commands.options import allow_code_option, json_option
from highwater.checker.scenarios import listing, rulebook, scenario_files
from highwater.checker.scenarios.listing import Entry
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import DEADLOCK, DEADLOCK_MEANING
from highwater.errors import unknown
from highwater.model.language.rulebook import FAITHFUL
from highwater.traces.reports.text import fold


@click.command(short_help="One of these in full.")
@click.argument("name", metavar="NAME")
@allow_code_option
@json_option
def show(name: str, json_file: str | None) -> Status:
    """Show what NAME is: a scenario, a protocol, a rule, a property of states, steps or runs, or an action.

    A property is shown with the scenarios that check it, and with its role if it is a helper of proofs or is checked
    by replay. A reachability goal is shown with the scenarios that expect it to be reached.

    If several protocols have a NAME, PROTOCOL:NAME selects one. NAME can also be a number of the rulebook, such as
    966.4 or B4, or a proposal, such as KIP-966. A number is shown with its statement, its reason, and the parts of the
    model that refer to it.
    """
    output = JsonOutput(json_file)
    found = listing.find(name)
    if not found:
        see = "`highwater list --help` tells what can be listed"
        raise InputError(rulebook.unknown_number(name) or unknown("name", name, listing.names(), see))
    for number, entry in enumerate(found):
        if number:
            output.say("")
        for line in _LINES[entry["kind"]](entry):
            text = line.lstrip(" ")
            for part in fold(text, line.removesuffix(text), terminal.width()) or [""]:
                output.say(part)
    output.write(found)
    return Status.OK


def _scenario(entry: Entry) -> Iterator[str]:
    profile = f", profile {entry['profile']}" if entry["profile"] else ""
    yield click.style(entry["name"], bold=True)
    yield f"  {entry['title']}"
    yield f"  protocol {entry['protocol']}{profile}{', standard' if entry['standard'] else ''}"
    promise = entry["promise"]
    held = f"{', '.join(promise['violated'])} violated" if promise["violated"] else "every property holds"
    held = held if entry["properties"] or not entry["goals"] else "every goal is reached"
    counts = [f"{promise[key]:,} {word}" for key, word in _COUNTS.items() if promise[key] is not None]
    yield f"  expected: {', '.join([held, *counts])}"
    parameters = [
        (p["name"], str(p["value"]), f"{p['low']} to {p['high']}: {p['meaning']}")
        for p in entry["parameters"]
    ]
    yield from _section("parameters", parameters)
    yield from _section(
        "rules", [(r["name"], "on" if r["on"] else "off", _sourced(r)) for r in entry["rules"]]
    )
    properties = _named(entry["properties"])
    if entry["deadlock"]:
        properties.append((DEADLOCK, DEADLOCK_MEANING))
    yield from _section("properties", properties)
    yield from _section("goals", _named(entry["goals"]))
    yield ""
    yield "  " + Request.of(scenario_files.find(entry["name"]), Overrides()).checked.sentence


_COUNTS = {"distinct_states": "states", "depth": "levels"}


def _protocol(entry: Entry) -> Iterator[str]:
    yield click.style(entry["name"], bold=True)
    yield f"  {entry['meaning']}"
    state = [(f["name"], f["type"], _ABSENT * f["absent"] + f["meaning"]) for f in entry["state"]]
    yield from _section("state, with default parameters", state)
    parameters = [(p["name"], f"{p['low']} to {p['high']}", p["meaning"]) for p in entry["parameters"]]
    yield from _section("parameters", parameters)
    yield from _section("profiles", [(p["name"], p["meaning"]) for p in entry["profiles"]])
    for title, kind in _KINDS.items():
        yield from _section(title, _named(entry[kind]))
    yield from _section("actions", [(_call(a), _sourced(a)) for a in entry["actions"]])
    yield from _section("scenarios", [(name,) for name in entry["scenarios"]])


_ABSENT = "(with other rules or parameters) "
_KINDS = {
    "rules": "rules",
    "invariants": "invariants",
    "properties of steps": "step_properties",
    "liveness": "liveness",
    "helper properties": "helpers",
    "reachability goals": "reachable",
}
"""Kinds of a protocol's rules and properties, by title."""


def _rule(entry: Entry) -> Iterator[str]:
    yield from _head(entry, entry["name"])
    if entry["profiles"]:
        yield f"  on in: {', '.join(entry['profiles'])}"


def _parameter(entry: Entry) -> Iterator[str]:
    yield click.style(entry["name"], bold=True)
    yield f"  parameter of {entry['protocol']}, {entry['low']} to {entry['high']}, default {entry['default']}"
    yield f"  {entry['meaning']}"
    values: dict[int, list[str]] = {}
    for name, value in entry["scenarios"].items():
        values.setdefault(value, []).append(name.rpartition("/")[2])
    yield from _section(
        "set in scenarios", ((str(v), ", ".join(names)) for v, names in sorted(values.items()))
    )


def _invariant(entry: Entry) -> Iterator[str]:
    yield from _head(entry, entry["name"])
    yield from _askers(entry)


def _askers(entry: Entry) -> Iterator[str]:
    """The lines for a property's role and for the scenarios that check it."""
    if entry.get("role"):
        yield "  a helper: proved with the others, and asked where a scenario names it"
    violated = entry["violated_in"]
    holds = [name for name in entry["asked_in"] if name not in violated]
    by_verdict = {"violated (expected)": violated, "holds": holds}
    yield from _section("checked in", ((how, ", ".join(names)) for how, names in by_verdict.items() if names))


def _goal(entry: Entry) -> Iterator[str]:
    yield from _head(entry, entry["name"])
    yield from _section("expected to be reached in", ((name,) for name in entry["expected_in"]))


def _observed(entry: Entry) -> Iterator[str]:
    yield click.style(entry["name"], bold=True)
    logs = [f"{of} (source {source})" for of, source in entry["checked_by"].items()]
    yield f"  asked by replay of the {', '.join(logs)}"
    yield f"  {entry['meaning']}"


def _deadlock(entry: Entry) -> Iterator[str]:
    yield click.style(entry["name"], bold=True)
    yield "  a property of every protocol, asked where a scenario names it"
    yield f"  {entry['meaning']}"
    yield from _askers(entry)


def _liveness(entry: Entry) -> Iterator[str]:
    yield from _head(entry, entry["name"])
    each = "".join(f", for each {p} of {domain}" for p, domain in entry["parameters"].items())
    yield f"  says: {entry['says']}{each}"
    yield from _section("fair", ((fairness,) for fairness in entry["fair"]))
    yield from _askers(entry)


def _action(entry: Entry) -> Iterator[str]:
    yield from _head(entry, _call(entry))
    if entry["says"]:
        yield f"  said as: {entry['says']}"
    everywhere = max((len(g["profiles"]) for g in entry["guards"]), default=0)
    yield from _section(
        "guards",
        (
            (g["name"], f"only in {', '.join(g['profiles'])}" if len(g["profiles"]) < everywhere else "")
            for g in entry["guards"]
        ),
    )


def _head(entry: Entry, name: str) -> Iterator[str]:
    needs = f", exists where the rule {entry['rule']} is on" if entry.get("rule") else ""
    yield click.style(name, bold=True)
    kind = f"reachability goal, of {entry['of']}," if entry["kind"] == "goal" else entry["kind"]
    yield f"  {kind} of {entry['protocol']}, source {entry['source'] or 'not given'}{needs}"
    yield f"  {_text(entry)}"


def _call(action: Entry) -> str:
    return f"{action['name']}({', '.join(action['parameters'])})"


def _named(entries: Iterable[Entry]) -> list[tuple[str, ...]]:
    return [(entry["name"], _sourced(entry)) for entry in entries]


def _sourced(entry: Entry) -> str:
    return f"{_text(entry)} ({entry['source']})" if entry["source"] else _text(entry)


def _text(entry: Entry) -> str:
    return str(entry.get("sentence") or entry["meaning"])


def _section(title: str, rows: Iterable[Sequence[str]]) -> Iterator[str]:
    rows = list(rows)
    if rows:
        yield ""
        yield title
        yield from terminal.columns(rows, "  ", terminal.width())


def number_lines(entry: Entry) -> Iterator[str]:
    """The lines for a rulebook number: statement, reason and proposal, then the parts of the model that refer to it."""
    yield from _title(entry)
    yield f"  {entry['states']}"
    yield from ("", f"  why: {entry['why']}")
    if entry["beyond"]:
        yield from ("", f"  beyond the proposal's letter: {entry['beyond']}")
    for sentence in entry["sentences"]:
        if sentence["status"] != FAITHFUL:
            yield from ("", f"  {sentence['status']}: {sentence['says']}", f"    {sentence['how']}")
    yield ""
    yield from _links(entry["from"])
    if not entry["from"]:
        yield "  no proposal: it is what the rules are held against"
    if entry["section"]:
        yield f"  section: {entry['section']}"
    if entry["quote"]:
        yield f"  “{entry['quote']}”"
    for title, parts in rulebook.parts(entry):
        rows = [(f"{p.name} ({p.protocols})" if p.protocols else p.name, p.place, p.text) for p in parts]
        filled = [i for i in range(3) if any(row[i] for row in rows)]
        yield from _section(title, [[row[i] for i in filled] for row in rows])


def family_lines(entry: Entry) -> Iterator[str]:
    """The lines for a family of rulebook numbers or a proposal: its subject, and the titles of its rules."""
    yield from _title(entry)
    if entry["about"]:
        yield from (f"  {entry['about']}", "")
    yield from _links(entry["from"])
    for title, rules in (("rules", entry["numbers"]), ("rules of others that rest on it", entry["others"])):
        yield from _section(title, [(rule["name"], rule["title"]) for rule in rules])


def _title(entry: Entry) -> Iterator[str]:
    yield from (click.style(f"{entry['name']}  {entry['title']}", bold=True), "")


def _links(proposals: Sequence[Entry]) -> Iterator[str]:
    for proposal in proposals:
        yield from (f"  {proposal['name']}: {proposal['title']}", f"    {proposal['link']}")


_LINES = {
    "scenario": _scenario,
    "protocol": _protocol,
    "rule": _rule,
    "parameter": _parameter,
    "invariant": _invariant,
    "step property": _invariant,
    "goal": _goal,
    "liveness": _liveness,
    "observed": _observed,
    "deadlock": _deadlock,
    "action": _action,
    "number": number_lines,
    "family": family_lines,
}
