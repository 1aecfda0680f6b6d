"""Galleries of known defects, a page a protocol: a table of all, then each with its run, drawn and in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from docs.analyses import defects
from docs.analyses.defects import Defect
from docs.pages.blocks import Block, asked_for, code, table
from docs.pages.place import DOCS
from docs.pages.runs import run_table
from highwater.checker.base.words import settings
from highwater.checker.telling.charts.lanes import SequenceChart
from highwater.checker.telling.counterexample import LoopBack


@dataclass(frozen=True)
class Gallery:
    """A page of defects; ``place`` is what the names of their scenarios begin with. The page says in which order."""

    page: str
    place: str

    @property
    def names(self) -> list[str]:
        """All of its defects, in the order of the page."""
        return asked_for((DOCS / self.page).read_text(encoding="utf-8"), "run")

    @property
    def blocks(self) -> Mapping[str, Block]:
        """The blocks of the page: a table of all defects, and a title and a run for each."""
        return {"defects": self._table, "title": self._title, "run": self.run}

    def _table(self) -> Iterator[str]:
        columns = ("defect", "rules off", "property", "depth:", "states searched:")
        return table(columns, (_row(defects.find(name, self.place)) for name in self.names))

    def _title(self, name: str) -> str:
        return defects.find(name, self.place).scenario.title

    def run(self, name: str) -> Iterator[str]:
        """What is off, within which bounds, what is violated, and the shortest run as a chart and in words."""
        defect = defects.find(name, self.place)
        yield from _facts(defect)
        if defect.examples:
            chart, example = SequenceChart(defect.model.protocol), defect.examples[0]
            yield f"\n```mermaid\n{chart.mermaid(example)}```\n"
            yield from run_table(chart, example)


def _row(defect: Defect) -> Iterator[str]:
    yield f"[{defect.name}](#{defect.name}): {defect.scenario.title}"
    yield code(defect.off) or f"profile `{defect.scenario.profile}`"
    yield code(e.name for e in defect.examples) or "none violated"
    yield str(defect.examples[0].depth) if defect.examples else "–"
    yield f"{defect.result.distinct_states:,}"


def _facts(defect: Defect) -> Iterator[str]:
    scenario, rules = defect.scenario, defect.scenario.protocol.rules
    for rule in defect.off:
        yield f"- Off: `{rule}` ({rules[rule].source}). {rules[rule].sentence}"
    if not defect.off:
        profile = scenario.protocol.profiles[scenario.profile or ""]
        yield f"- Profile `{scenario.profile}`: {profile.meaning}."
    yield f"- Within: {settings(scenario.parameters)}."
    states = f"{defect.result.distinct_states:,}"
    if not defect.examples:
        checked = ", ".join(f"`{name}`" for name in defect.model.safety)
        yield f"- Holds all the same: {checked}, in each of the {states} reachable states."
        return
    example, *others = defect.examples
    yield f"- Violated: `{example.name}` ({example.source}). {example.meaning}"
    if example.of_step:
        yield f"- Step {example.depth} of the shortest run violates it; {states} states were searched."
    elif example.loop is not None:
        yield f"- {_for_ever(example.depth, example.loop)}; {states} states were searched."
    else:
        yield f"- The shortest run has depth {example.depth}; {states} states were searched."
        yield from (f"- Violated as well: `{e.name}`, at depth {e.depth}." for e in others)


def _for_ever(depth: int, loop: LoopBack) -> str:
    if loop.start + 1 == depth:
        return f"The run stays in its state {depth} for ever: nothing that is fair can be done there"
    return (
        f"From its state {depth} the run goes on as from state {loop.start + 1}, which is the same, for ever"
    )


REPLICATION = Gallery("gallery.md", defects.PLACE)
QUORUM = Gallery("quorum-gallery.md", "quorum/defect-")
ZOOKEEPER = Gallery("zookeeper-gallery.md", "zookeeper/")
