"""The states that coverage is asked of: those of scenarios, explored, and those of traces, replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from highwater.checker.asking.request import Request
from highwater.checker.asking.search import SearchOptions
from highwater.checker.comparing.coverage.counting import count
from highwater.checker.comparing.coverage.rules import RuleUse, uses
from highwater.checker.comparing.coverage.sites import Site, questions
from highwater.checker.engines.layout import Layout, Words
from highwater.checker.running.progress import ProgressReporter
from highwater.model.language import graph
from highwater.model.language.model import Model, Scalars
from highwater.model.language.rulebook import Rulebook
from highwater.traces.runs.format import LineReader, read_run
from highwater.traces.runs.replay import LIMIT_STATES, Carrier, model_for


@dataclass
class Coverage:
    """What was exercised. A site's three counts are those of its Question; all counts add up over ``sources``.

    ``steps`` counts, for each action, the pairs (state, choice of parameters) in which it can be taken; ``premises``,
    for each property, the states (of a property of steps: the steps) of which it has something to say; ``ruled_out``
    are actions that no source's parameters leave a way to take.
    """

    sources: list[str] = field(default_factory=list)
    states: int = 0
    sites: dict[Site, list[int]] = field(default_factory=dict)
    steps: Counter[str] = field(default_factory=Counter)
    premises: Counter[str] = field(default_factory=Counter)
    ruled_out: set[str] = field(default_factory=set)
    rules: dict[str, RuleUse] = field(default_factory=dict)
    observed: Counter[str] = field(default_factory=Counter)
    """Of traces: the lines that each action explains."""
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False
    rulebook: Rulebook | None = None
    """What is known of the numbers that the protocol names."""

    def add(self, source: str, model: Model, states: Words, *, rules: bool = True) -> None:
        """Ask everything of a model in packed states."""
        self.sources.append(source)
        self.states += len(states)
        book = model.protocol.rulebook
        self.rulebook = book if isinstance(book, Rulebook) else None
        layout = Layout(model.leaves)
        asked = list(questions(model))
        nodes = [node for question in asked for node in question.nodes]
        step_nodes = [i.leads_on for i in model.instances]
        premises = [p.premise for p in model.properties]
        of_steps = [
            (model.step_properties[j.number].name, graph.and_(instance.leads_on, j.premise))
            for instance, own in zip(model.instances, model.judged, strict=True)
            for j in own
        ]
        premises += [node for _, node in of_steps]
        names = [p.name for p in model.properties] + [name for name, _ in of_steps]
        totals = count(layout, [*nodes, *step_nodes, *premises], states)
        for number, question in enumerate(asked):
            own = self.sites.setdefault(question.site, [0, 0, 0])
            for i in range(3):
                own[i] += totals[3 * number + i]
        for instance, total in zip(model.instances, totals[len(nodes) :], strict=False):
            self.steps[instance.action.name] += total
        self.premises.update(dict.fromkeys(model.safety, 0))
        for name, total in zip(names, totals[len(nodes) + len(step_nodes) :], strict=True):
            self.premises[name] += total
        self.ruled_out |= set(model.ruled_out)
        if rules:
            self._add_rules(uses(model, states))

    def _add_rules(self, found: list[RuleUse]) -> None:
        for use in found:
            known = self.rules.setdefault(use.name, RuleUse(use.name, asked=False))
            known.asked |= use.asked
            known.forbids += use.forbids
            known.allows += use.allows
            known.changes += use.changes
            known.actions = tuple(dict.fromkeys([*known.actions, *use.actions]))

    @property
    def never_possible(self) -> set[str]:
        """Actions that could not be taken anywhere, whatever the parameters."""
        return {name for name in self.ruled_out if not self.steps[name]}


def add_scenario(
    coverage: Coverage, request: Request, options: SearchOptions, *, rules: bool, quiet: bool
) -> None:
    """Explore a scenario, up to the limits, and ask everything in its states."""
    from highwater.checker.engines.native.state_graph import explore

    model = request.without_goals().model()
    with ProgressReporter(request.scenario.name, quiet=quiet) as progress:
        explored = explore(model, options, progress)
    if not explored.complete:
        coverage.notes.append(
            f"{request.scenario.name}: not all states were seen ({explored.stopped_by}); {len(explored.states):,} were"
        )
        coverage.interrupted |= explored.stopped_by == "interrupted"
    coverage.add(request.scenario.name, model, explored.states, rules=rules)


def add_trace(
    coverage: Coverage,
    path: Path,
    *,
    switches: Mapping[str, bool] | None = None,
    profile: str | None = None,
    rules: bool = True,
) -> None:
    """Replay a trace, and ask everything in the states that fit it. Raises TraceError where it is none."""
    trace = read_run(path)
    _, interpreter = model_for(trace.meta, switches, profile)
    model = interpreter.model
    reader, carrier = (
        LineReader(model, trace.meta),
        Carrier(interpreter, trace.meta.hidden_steps, LIMIT_STATES),
    )
    states: list[Scalars] = list(model.initial)
    seen = dict.fromkeys(states)
    for line in trace.lines:
        expected = reader.read(line)
        if line.step == 0:
            fits = [s for s in states if expected.seen.fits(s)]
            states = fits or ([expected.whole] if expected.whole is not None else [])
            seen = dict.fromkeys(states)
        else:
            advance = carrier.advance(states, expected)
            seen |= dict.fromkeys(carrier.passed(states, expected))
            for name in {model.instances[n].action.name for n in expected.numbers} if advance.states else ():
                coverage.observed[name] += 1
            states = advance.states
        if not states:
            coverage.notes.append(
                f"{path}: nothing explains step {line.step}; what follows was not looked at"
            )
            break
        seen |= dict.fromkeys(states)
    layout = Layout(model.leaves)
    packed = np.array([layout.pack(s) for s in seen], dtype=np.uint64).reshape(len(seen), layout.words)
    coverage.add(str(path), model, packed, rules=rules)
