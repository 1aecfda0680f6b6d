"""What the checker finds in Kafka trunk of 2024-10: the blocks of docs/kafka-trunk.md."""

from __future__ import annotations

from collections.abc import Iterator

from docs.analyses.trunk_findings import FINDINGS, LARGE, Finding, closed, found, scenario
from docs.pages.blocks import Block, table
from docs.pages.runs import run_table
from highwater.checker.telling.charts.lanes import SequenceChart


def _findings() -> Iterator[str]:
    columns = ("scenario", "kind", "violated, at depth", "states searched:", "closed by: states then")
    return table(columns, map(_row, FINDINGS))


def _row(finding: Finding) -> Iterator[str]:
    it = found(finding.name)
    yield from (f"[{finding.name}](#{finding.name})", finding.kind)
    yield "<br/>".join(f"`{e.name}` {e.depth}" for e in it.examples)
    yield f"{it.result.distinct_states:,}"
    yield "<br/>".join(_closing(finding.name, rules) for rules in finding.closes)


def _closing(name: str, rules: tuple[str, ...]) -> str:
    said = " + ".join(f"`{rule}`" for rule in rules)
    if name in LARGE:
        return f"{said}: tens of millions, in a slow test"
    return f"{said}: {closed(name, rules).distinct_states:,}"


def _finding(name: str) -> Iterator[str]:
    """A finding's scenario, the rules that are missing, and its shortest run."""
    (finding,) = (f for f in FINDINGS if f.name == name)
    chosen, it = scenario(name), found(name)
    protocol, example = chosen.protocol, it.examples[-1]
    yield f"**{chosen.title}.**\n"
    yield f"- Within: {', '.join(f'{key} {value}' for key, value in chosen.parameters.items())}."
    if chosen.rules:
        yield f"- Beside the profile: {', '.join(f'`{r}` on' for r, on in chosen.rules.items() if on)}."
    for rule in dict.fromkeys(rule for rules in finding.closes for rule in rules):
        yield f"- Missing: `{rule}` ({protocol.rules[rule].source}). {protocol.rules[rule].sentence}"
    yield f"- The run to `{example.name}`, depth {example.depth}. {example.meaning}\n"
    yield from run_table(SequenceChart(it.model.protocol), example)


BLOCKS: dict[str, Block] = {"findings": _findings, "finding": _finding}
