"""What the checker finds in Kafka trunk of 2024-10: the page docs/kafka-trunk.md."""

from __future__ import annotations

from collections.abc import Iterator

from highwater.checker.docs.trunk_findings import FINDINGS, LARGE, Finding, closed, found, scenario
from highwater.checker.docs.trunk_notes import HEAD, KINDS, SECTIONS, SUMMARY, TAIL
from highwater.checker.telling.charts.sequence_chart import SequenceChart
from highwater.checker.telling.counterexample import Counterexample

_BY_NAME = {finding.name: finding for finding in FINDINGS}


def kafka_trunk() -> str:
    """The page: a table of all findings, then each with its reasons and its shortest run."""
    lines = [
        HEAD,
        "## The findings",
        "",
        SUMMARY,
        "| scenario | kind | violated, at depth | states searched | closed by: states then |",
        "| --- | --- | --- | ---: | --- |",
        *(_row(finding) for finding in FINDINGS),
    ]
    for title, names, text in SECTIONS:
        lines += ["", f"## {title}", "", text]
        lines += [line for name in names for line in _finding(_BY_NAME[name])]
    return "\n".join([*lines, "", TAIL]).rstrip() + "\n"


def _row(finding: Finding) -> str:
    it = found(finding.name)
    violated = "<br/>".join(f"`{e.name}` {e.depth}" for e in it.examples)
    closing = "<br/>".join(_closing(finding.name, rules) for rules in finding.closes)
    link = f"[{finding.name}](#{finding.name})"
    return f"| {link} | {KINDS[finding.name]} | {violated} | {it.result.distinct_states:,} | {closing} |"


def _closing(name: str, rules: tuple[str, ...]) -> str:
    said = " + ".join(f"`{rule}`" for rule in rules)
    if name in LARGE:
        return f"{said}: tens of millions, in a slow test"
    return f"{said}: {closed(name, rules).distinct_states:,}"


def _finding(finding: Finding) -> Iterator[str]:
    chosen = scenario(finding.name)
    it, protocol = found(finding.name), chosen.protocol
    example = it.examples[-1]
    yield f"\n### {finding.name}\n"
    yield f"**{chosen.title}.**\n"
    yield f"- Within: {', '.join(f'{key} {value}' for key, value in chosen.parameters.items())}."
    if chosen.rules:
        yield f"- Beside the profile: {', '.join(f'`{r}` on' for r, on in chosen.rules.items() if on)}."
    for rule in dict.fromkeys(rule for rules in finding.closes for rule in rules):
        yield f"- Missing: `{rule}` ({protocol.rules[rule].source}). {protocol.rules[rule].sentence}"
    yield f"- The run to `{example.name}`, depth {example.depth}. {example.meaning}\n"
    yield from run_table(SequenceChart(it.model.protocol), example)


def run_table(chart: SequenceChart, example: Counterexample) -> Iterator[str]:
    """A run as a table: each step, and what it changes."""
    yield "| step | what happens | what changes |"
    yield "| ---: | --- | --- |"
    for number, step in enumerate(example.steps[1:], 2):
        changes = "<br/>".join(f"`{text}`" for text in chart.told(step, None))
        yield f"| {number} | {step.sentence} | {changes} |"


__all__ = ["kafka_trunk", "run_table"]
