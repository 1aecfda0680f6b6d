"""What the checker finds in Kafka 4.2.1: the blocks of docs/kafka-4.2.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docs.analyses import findings_4_2 as findings
from docs.pages import bounds_4_2_page as bounds
from docs.pages.blocks import Block, row, table
from docs.pages.runs import run_table
from highwater.checker.asking.request import Overrides
from highwater.checker.base.problems import InputError
from highwater.checker.telling.charts.lanes import SequenceChart
from highwater.checker.telling.counterexample import Counterexample

_NOT_SO = findings.TEXTS["not_so"]
_PROFILES = ("kafka_trunk_2024_10", "kafka_4_2", "kip_966_first_phase")


def _findings() -> Iterator[str]:
    columns = ("scenario", "kind", "violated, at depth", "states searched:", "closed by: states then")
    return table(columns, (_row(name, finding) for name, finding in findings.FINDINGS.items()))


def _trunk() -> Iterator[str]:
    return table(("scenario", "trunk of 2024-10", "4.2.1", "proposal", "so in 4.2.1"), _trunk_rows())


def _row(name: str, finding: dict[str, Any]) -> Iterator[str]:
    it = findings.found(name)
    violated = "<br/>".join(f"`{e.name}` {e.depth}" for e in it.examples)
    closing = "<br/>".join(_closing(name, switches) for switches in finding["closes"])
    yield from (f"[{name}](#{name})", finding["kind"], violated, f"{it.states:,}", closing)


def _closing(name: str, switches: dict[str, bool]) -> str:
    said = " + ".join(f"`{rule}` {'on' if on else 'off'}" for rule, on in switches.items())
    if findings.FINDINGS[name].get("large"):
        return f"{said}: millions, in a slow test"
    it = findings.switched(name, switches)
    if it.examples or not it.complete:
        raise ValueError(f"{name}: {switches} does not close it")
    return f"{said}: {it.states:,}"


def _trunk_rows() -> Iterator[tuple[str, ...]]:
    names = [f"replication/controller/kafka-trunk-{name}" for name in findings.CONTROLLER_TRUNK]
    names += [f"replication/trunk-{name}" for name in findings.MESSAGES_TRUNK]
    for name in names:
        outcomes = [findings.of_trunk(name, profile) for profile in _PROFILES]
        verdict = "still there" if outcomes[1].examples else _NOT_SO.get(name, "closed")
        yield (f"`{name}`", *map(_verdict, outcomes), verdict)
    for name, finding in findings.FINDINGS.items():
        verdicts = _verdict(findings.found(name)), _proposal(name)
        yield (f"`{findings.full_name(name)}`", "–", *verdicts, finding["trunk"])


def _proposal(name: str) -> str:
    try:
        return _verdict(findings.outcome(findings.full_name(name), Overrides(profile="kip_966_first_phase")))
    except InputError:
        return "no such steps, or the property says nothing of it"


def _verdict(it: findings.Outcome) -> str:
    if not it.examples:
        return "holds" if it.complete else "not searched to its end"
    return "<br/>".join(f"`{e.name}` {e.depth}" for e in it.examples)


def _finding(name: str) -> Iterator[str]:
    """What a finding needs, what closes it, where it is in code and recordings, and its shortest runs."""
    finding, chosen, it = findings.FINDINGS[name], findings.scenario(name), findings.found(name)
    protocol = chosen.protocol
    yield f"- Within: {', '.join(f'{key} {value}' for key, value in chosen.parameters.items())}."
    if not finding.get("large"):
        needed = (
            ", ".join(_needs(name, finding))
            or "none of the steps and rules that were taken away one at a time"
        )
        yield f"- Needs: {needed}."
    for rule in dict.fromkeys(rule for switches in finding["closes"] for rule in switches):
        yield f"- `{rule}` ({protocol.rules[rule].source}): {protocol.rules[rule].sentence}"
    yield f"- In the code: {finding['place']}."
    yield f"- Recorded. {_recorded(finding)}"
    yield f"- Upstream. {finding['upstream'].strip()}"
    if queries := finding.get("queries"):
        yield f"- Searched for: {'; '.join(f'“{query}”' for query in queries)}."
    for example in it.examples:
        yield f"- The run to `{example.name}`, depth {example.depth}. {example.meaning}\n"
        if "partition" in example.steps[0].state:
            yield from _run(example)
        else:
            yield from run_table(SequenceChart(it.model.protocol), example)


def _recorded(finding: dict[str, Any]) -> str:
    shown = finding.get("evidence")
    if shown is None:
        return str(finding["recorded"])
    return f"{shown['count']} {shown['of']}; the first: `{shown['first']}`, line {shown['line']}."


_SHOWN = {
    "replicas": "replicas",
    "ISR": "isr",
    "ELR": "elr",
    "leader": "leader",
    "remembered": "last_known_leader",
}
"""Columns of a run, and the fields of the partition in them."""


def _run(example: Counterexample) -> Iterator[str]:
    """A run as a table: each step, and the partition after it; ``complete``: who holds all that is committed."""
    yield from table(("step:", "what happens", *_SHOWN, "complete"), [])
    for number, step in enumerate(example.steps, 1):
        partition = step.state["partition"]
        cells = [_cell(partition[name]) for name in _SHOWN.values()]
        yield row((number, step.sentence, *cells, _cell(step.state.get("complete"))))


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(str(member) for member in value) or "∅"
    return str(value)


def _needs(name: str, finding: dict[str, Any]) -> Iterator[str]:
    yield from (f"`{budget}`" for budget in findings.fewer_steps(name))
    for rule in finding["needs"]:
        if findings.switched(name, {rule: False}).examples:
            raise ValueError(f"{name} does not need {rule}")
        yield f"the rule `{rule}`"


BLOCKS: dict[str, Block] = {
    "findings": _findings,
    "trunk": _trunk,
    "title": lambda name: findings.scenario(name).title,
    "finding": _finding,
    **bounds.BLOCKS,
}
