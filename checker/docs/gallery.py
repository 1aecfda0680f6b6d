"""Galleries of known defects, a page a protocol: a table of all, then each with its run, drawn and in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from highwater.checker.base.words import settings
from highwater.checker.docs import defects
from highwater.checker.docs.defects import Defect
from highwater.checker.telling.charts.sequence_chart import SequenceChart
from highwater.checker.telling.counterexample import Counterexample, LoopBack


@dataclass(frozen=True)
class Gallery:
    """What the page of a protocol's defects says beside what it computes.

    ``place`` is what the names of their scenarios begin with. ``groups`` are titles, and the defects below each in
    their order; ``notes`` says of each what closes it and how to read the run, in Markdown.
    """

    head: str
    place: str
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    notes: Mapping[str, str]

    @property
    def names(self) -> list[str]:
        """All of its defects, in the order of the page."""
        return [name for _, names in self.groups for name in names]

    def page(self) -> str:
        """The page: a table of all defects, then each with its chart and its words."""
        lines = [
            self.head,
            "| defect | rules off | property | depth | states searched |",
            "| --- | --- | --- | ---: | ---: |",
        ]
        lines += [_row(defects.find(name, self.place)) for name in self.names]
        for title, names in self.groups:
            lines += ["", f"## {title}"]
            lines += [self.section(name) for name in names]
        return "\n".join(lines).rstrip() + "\n"

    def section(self, name: str) -> str:
        """What the page says of one defect."""
        return "\n".join(_entry(defects.find(name, self.place), self.notes[name]))


def _row(defect: Defect) -> str:
    title = defect.scenario.title
    link = f"[{defect.name}](#{defect.name})"
    if defect.examples:
        found = [f"`{e.name}`" for e in defect.examples]
        depth = str(defect.examples[0].depth)
    else:
        found, depth = ["none violated"], "–"
    off = "<br/>".join(f"`{rule}`" for rule in defect.off) or f"profile `{defect.scenario.profile}`"
    return (
        f"| {link}: {title} | {off} | {'<br/>'.join(found)} | {depth} | {defect.result.distinct_states:,} |"
    )


def _entry(defect: Defect, note: str) -> Iterator[str]:
    """A defect with a note on it: the rules that are off, the budgets, and the shortest run as a chart and in words."""
    scenario = defect.scenario
    yield f"\n### {defect.name}\n"
    yield f"**{scenario.title}.** {note}\n"
    rules = scenario.protocol.rules
    if defect.off:
        for rule in defect.off:
            yield f"- Off: `{rule}` ({rules[rule].source}). {rules[rule].sentence}"
    else:
        profile = scenario.protocol.profiles[scenario.profile or ""]
        yield f"- Profile `{scenario.profile}`: {profile.meaning}."
    yield f"- Within: {settings(scenario.parameters)}."
    states = f"{defect.result.distinct_states:,}"
    if not defect.examples:
        checked = ", ".join(f"`{name}`" for name in defect.model.safety)
        yield f"- Holds all the same: {checked}, in each of the {states} reachable states.\n"
        return
    example = defect.examples[0]
    yield f"- Violated: `{example.name}` ({example.source}). {example.meaning}"
    if example.of_step:
        yield f"- Step {example.depth} of the shortest run violates it; {states} states were searched.\n"
    elif example.loop is None:
        yield f"- The shortest run has depth {example.depth}; {states} states were searched."
        yield from (f"- Violated as well: `{e.name}`, at depth {e.depth}." for e in defect.examples[1:])
        yield ""
    else:
        yield f"- {_for_ever(example, example.loop)}; {states} states were searched.\n"
    chart = SequenceChart(defect.model.protocol)
    yield f"```mermaid\n{chart.mermaid(example)}```\n"
    yield from _words(chart, example)


def _for_ever(example: Counterexample, loop: LoopBack) -> str:
    if loop.start + 1 == example.depth:
        return f"The run stays in its state {example.depth} for ever: nothing that is fair can be done there"
    return f"From its state {example.depth} the run goes on as from state {loop.start + 1}, which is the same, for ever"


def _words(chart: SequenceChart, example: Counterexample) -> Iterator[str]:
    """The run, a line a step, with what the protocol wants told of the changes."""
    yield "| step | what happens | what changes |"
    yield "| ---: | --- | --- |"
    for number, step in enumerate(example.steps[1:], 2):
        changes = "<br/>".join(f"`{text}`" for text in chart.told(step, None))
        yield f"| {number} | {step.sentence} | {changes} |"


__all__ = ["Gallery"]
