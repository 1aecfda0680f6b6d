"""The galleries of known defects: for each protocol a page with a table of defects, and a chart of each run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from docs.pages.kept import once, search, traced
from docs.pages.markdown import Block, asked_for, code, run_table, table, template
from docs.pages.picture import svg
from highwater.checker.base.text import settings
from highwater.checker.report.counterexample import Counterexample, LoopBack, follow_all
from highwater.checker.report.page.content import content
from highwater.checker.report.page.run import counterexamples
from highwater.checker.scenarios import scenario_files as scenarios
from highwater.checker.scenarios.catalogue import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.scenario_files import Scenario
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.model.language.model import Model

PLACE = "replication/defect-"
DRAWN = "images/runs"
"""The folder of the drawn runs on the site."""

LARGE = frozenset({"unfenced-fetch", "join-by-old-fetch"})
"""Defects whose search takes more than a few seconds."""


@dataclass(frozen=True)
class Defect:
    """A scenario of a gallery with the result of its search and the counterexamples."""

    name: str
    scenario: Scenario
    model: Model
    result: SearchResult
    examples: tuple[Counterexample, ...]

    @property
    def off(self) -> list[str]:
        """The rules that the scenario switches off."""
        return [rule for rule, on in self.scenario.rules.items() if not on]


def names(place: str = PLACE) -> list[str]:
    """The names of the scenarios whose name begins with ``place``, without this prefix, in file order."""
    return [name.removeprefix(place) for name in scenario_files() if name.startswith(place)]


def asked(name: str, place: str = PLACE) -> tuple[Scenario, Model, SearchOptions]:
    """The scenario of the defect ``name``, with its model and the options to search it.

    The search ends at the first violation unless the scenario expects several properties to be violated.
    """
    scenario = scenarios.find(place + name)
    model = traced(Request.of(scenario, Overrides()))
    return scenario, model, SearchOptions(workers=1, stop_at_first=len(scenario.expectation.violated) < 2)


@once
def find(name: str, place: str = PLACE) -> Defect:
    """Search for a defect. Raises ValueError if the violated properties are not the expected ones."""
    scenario, model, options = asked(name, place)
    result = search(model, options)
    violated = {v.property for v in result.violations}
    if violated != scenario.expectation.violated:
        raise ValueError(
            f"{scenario.name}: {', '.join(sorted(violated)) or 'nothing'} is violated, as not promised"
        )
    return Defect(name, scenario, model, result, follow_all(model, result.violations))


@dataclass(frozen=True)
class Gallery:
    """A page of defects. ``place`` is the prefix of the scenarios' names."""

    page: str
    place: str

    @property
    def names(self) -> list[str]:
        """The names of the defects, in the order of the page's template."""
        return asked_for(template(self.page), "run")

    @property
    def blocks(self) -> Mapping[str, Block]:
        """The blocks of the page: a table of all defects, and a title and a run for each."""
        return {"defects": self._table, "title": self._title, "run": self.run}

    def _table(self) -> Iterator[str]:
        columns = ("defect", "rules off", "property", "depth:", "states searched:")
        return table(columns, (_row(find(name, self.place)) for name in self.names))

    def _title(self, name: str) -> str:
        return find(name, self.place).scenario.title

    def run(self, name: str) -> Iterator[str]:
        """The lines about a defect: rules that are off, bounds, violated properties, and the shortest run."""
        defect = find(name, self.place)
        yield from _facts(defect)
        if defect.examples:
            yield f"\n![{defect.scenario.title}]({DRAWN}/{_file(self.place, name)})\n"
            yield from run_table(defect.model.protocol, defect.examples[0])


def _file(place: str, name: str) -> str:
    return f"{place.partition('/')[0]}-{name}.svg"


@cache
def links() -> dict[str, str]:
    """A link to the entry of each scenario that a gallery has, by the scenario's name."""
    return {
        gallery.place + name: f"[`{gallery.place}{name}`]({gallery.page}#{name})"
        for gallery in (REPLICATION, QUORUM, ZOOKEEPER)
        for name in gallery.names
    }


def drawings() -> dict[str, str]:
    """The charts of all galleries' runs as SVG, by their path on the site."""
    found = {}
    for gallery in (REPLICATION, QUORUM, ZOOKEEPER):
        for defect in (find(name, gallery.place) for name in gallery.names):
            if defect.examples:
                drawn = counterexamples(defect.model, defect.result.violations, defect.examples[:1])
                found[f"{DRAWN}/{_file(gallery.place, defect.name)}"] = svg(content("", drawn)["runs"][0])
    return found


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
        yield f"- {_endless(example.depth, example.loop)}; {states} states were searched."
    else:
        yield f"- The shortest run has depth {example.depth}; {states} states were searched."
        yield from (f"- Violated as well: `{e.name}`, at depth {e.depth}." for e in others)


def _endless(depth: int, loop: LoopBack) -> str:
    if loop.start + 1 == depth:
        return f"The run stays in its state {depth} forever: no fair step is enabled there"
    return f"State {depth} equals state {loop.start + 1}, and the run repeats from there forever"


REPLICATION = Gallery("gallery.md", PLACE)
QUORUM = Gallery("quorum-gallery.md", "quorum/defect-")
ZOOKEEPER = Gallery("zookeeper-gallery.md", "zookeeper/")
