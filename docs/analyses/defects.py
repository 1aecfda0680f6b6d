"""The known defects: scenarios that take rules off, and the shortest runs to what goes wrong then."""

from __future__ import annotations

from dataclasses import dataclass

from docs.analyses.kept import once, search
from docs.analyses.traced import traced
from highwater.checker.asking import scenarios
from highwater.checker.asking.catalogue import scenario_files
from highwater.checker.asking.request import Overrides, Request
from highwater.checker.asking.scenarios import Scenario
from highwater.checker.asking.search import SearchOptions, SearchResult
from highwater.checker.telling.counterexample import Counterexample, follow_all
from highwater.model.language.model import Model

PLACE = "replication/defect-"

LARGE = frozenset({"unfenced-fetch", "join-by-old-fetch"})
"""Those whose search takes longer than seconds."""


@dataclass(frozen=True)
class Defect:
    """A scenario of which it is told what goes wrong, or that nothing does, and in which search."""

    name: str
    scenario: Scenario
    model: Model
    result: SearchResult
    examples: tuple[Counterexample, ...]

    @property
    def off(self) -> list[str]:
        """The rules that the scenario takes off."""
        return [rule for rule, on in self.scenario.rules.items() if not on]


def names(place: str = PLACE) -> list[str]:
    """All defects of a protocol, those of replication unless said, in the order of their files."""
    return [name.removeprefix(place) for name in scenario_files() if name.startswith(place)]


def asked(name: str, place: str = PLACE) -> tuple[Scenario, Model, SearchOptions]:
    """What is searched for a defect: with one worker, to the first violation, of several that are promised the last."""
    scenario = scenarios.find(place + name)
    model = traced(Request.of(scenario, Overrides()))
    return scenario, model, SearchOptions(workers=1, stop_at_first=len(scenario.promise.violated) < 2)


@once
def find(name: str, place: str = PLACE) -> Defect:
    """Search for a defect, the same run every time; ValueError where what is found is not what is promised."""
    scenario, model, options = asked(name, place)
    result = search(model, options)
    violated = {v.property for v in result.violations}
    if violated != scenario.promise.violated:
        raise ValueError(
            f"{scenario.name}: {', '.join(sorted(violated)) or 'nothing'} is violated, as not promised"
        )
    return Defect(name, scenario, model, result, follow_all(model, result.violations))
