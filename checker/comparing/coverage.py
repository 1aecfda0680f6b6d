"""Coverage of a protocol: the guards, branches and rules that a set of states exercises.

The states come from explored scenarios and from replayed traces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from highwater.checker.comparing.models.differences import instances_of_both, questions_of_both
from highwater.checker.engines.native.code.machine import Effort
from highwater.checker.engines.native.initial import Evaluation
from highwater.checker.engines.state_graph import Layout, Words
from highwater.checker.runner.one import ProgressReporter
from highwater.checker.scenarios.model_key import Fingerprints, by_action
from highwater.checker.scenarios.request import Request
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import graph
from highwater.model.language.errors import LanguageError
from highwater.model.language.graph import Node
from highwater.model.language.initial import Scalars
from highwater.model.language.model import Instance, Model, trace_instances
from highwater.model.language.rulebook import Rulebook
from highwater.model.language.tracing import guards_so_far, parameter_values
from highwater.model.language.tracker import (
    Observation,
    Reached,
    StateTracker,
    TooManyStatesError,
    model_steps,
)
from highwater.model.language.values import watching
from highwater.traces.runs.format import LineReader, read_run
from highwater.traces.runs.replay import LIMIT_STATES, model_for


@dataclass
class Coverage:
    """Counts of how often the parts of a protocol are exercised, summed over all ``sources``.

    - ``sites``: three counts for each site, one for each condition of its ``SiteQuestion``
    - ``steps``: for each action, the number of pairs (state, parameter values) in which the action is enabled
    - ``premises``: for each property, the number of states in which its premise holds (step property: of steps)
    - ``ruled_out``: the actions that the parameters of some source exclude
    """

    sources: list[str] = field(default_factory=list)
    states: int = 0
    sites: dict[Site, list[int]] = field(default_factory=dict)
    steps: Counter[str] = field(default_factory=Counter)
    premises: Counter[str] = field(default_factory=Counter)
    ruled_out: set[str] = field(default_factory=set)
    rules: dict[str, RuleUse] = field(default_factory=dict)
    observed: Counter[str] = field(default_factory=Counter)
    """For each action, the number of explained trace lines that name it; a line without an action counts for all."""
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False
    rulebook: Rulebook | None = None
    """The rulebook of the protocol; None if the protocol has none."""

    def add(self, source: str, model: Model, states: Words, *, rules: bool = True) -> None:
        """Count sites, steps, premises and, with ``rules``, rules of a model in packed states, and add the counts.

        KeyboardInterrupt leaves all counts as they were.
        """
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
        found = uses(model, states) if rules else []
        self.sources.append(source)
        self.states += len(states)
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
        self._add_rules(found)

    def _add_rules(self, found: list[RuleUse]) -> None:
        for use in found:
            known = self.rules.setdefault(use.name, RuleUse(use.name, asked=False))
            known.asked |= use.asked
            known.add(use.actions, use.forbids, use.allows, use.changes)

    @property
    def never_possible(self) -> set[str]:
        """The actions that the parameters of at least one source exclude, and that no state of any source enables."""
        return {name for name in self.ruled_out if not self.steps[name]}


def add_scenario(
    coverage: Coverage, request: Request, options: SearchOptions, *, rules: bool, quiet: bool
) -> None:
    """Explore a scenario up to the limits in ``options``, and add the counts in the states found.

    If Ctrl-C ends the exploration, nothing is counted.
    """
    from highwater.checker.engines.native.state_graph import explore

    model = request.without_goals().model()
    with ProgressReporter(request.scenario.name, quiet=quiet) as progress:
        explored = explore(model, options, progress)
    if explored.stopped_by == "interrupted":
        raise KeyboardInterrupt
    if not explored.complete:
        coverage.notes.append(
            f"{request.scenario.name}: not all states were seen ({explored.stopped_by}); {len(explored.states):,} were"
        )
    coverage.add(request.scenario.name, model, explored.states, rules=rules)


def add_trace(
    coverage: Coverage,
    path: Path,
    *,
    switches: Mapping[str, bool] | None = None,
    profile: str | None = None,
    rules: bool = True,
) -> None:
    """Replay a trace, and add the counts in the model's states that fit the trace.

    Raises TraceError if the trace is invalid.
    """
    trace = read_run(path)
    _, interpreter = model_for(trace.meta, switches, profile)
    model = interpreter.model
    reader, pruned = LineReader(model, trace.meta), set[str]()
    all_steps = model_steps(interpreter, tuple(range(len(model.instances))), pruned)
    tracker = StateTracker(all_steps, trace.meta.hidden_steps, LIMIT_STATES)
    states: list[Scalars] = list(model.initial)
    seen = dict.fromkeys(states)
    for line in trace.lines:
        expected = reader.read(line)
        if line.step == 0:
            fits = [s for s in states if expected.seen.fits(s)]
            states = fits or ([expected.whole] if expected.whole is not None else [])
            seen = dict.fromkeys(states)
        else:
            steps = model_steps(interpreter, expected.numbers, pruned)
            observation = Observation(steps, expected.fits, expected.basis)
            try:
                advance = tracker.advance(states, observation)
            except TooManyStatesError as wrong:
                raise line.place.wrong(f"inconclusive: {wrong} so far") from None
            seen |= dict.fromkeys(_passed(tracker, states, observation))
            for name in {model.instances[n].action.name for n in expected.numbers} if advance.states else ():
                coverage.observed[name] += 1
            states = list(advance.states)
        if not states:
            coverage.notes.append(
                f"{path}: no step of the model explains step {line.step}; later lines are not counted"
            )
            break
        seen |= dict.fromkeys(states)
    layout = Layout(model.leaves)
    packed = np.array([layout.pack(s) for s in seen], dtype=np.uint64).reshape(len(seen), layout.words)
    coverage.add(str(path), model, packed, rules=rules)


def _passed(
    tracker: StateTracker[Scalars], states: Iterable[Scalars], observation: Observation[Scalars]
) -> list[Scalars]:
    """The states before an observed step that lie on a run from ``states`` to a state that fits."""

    @cache
    def leads(reached: Reached[Scalars], hidden: int) -> bool:
        basis, state = reached
        if any(observation.fits(basis, later) for _, later in observation.steps(state)):
            return True
        return hidden > 0 and any(leads((basis, later), hidden - 1) for _, later in tracker.hidden(state))

    found: dict[Reached[Scalars], None] = {}
    level = [(observation.basis(state), state) for state in states]
    for hidden in range(tracker.hidden_steps, -1, -1):
        level = [reached for reached in level if reached not in found and leads(reached, hidden)]
        found |= dict.fromkeys(level)
        level = [(basis, later) for basis, s in level for _, later in tracker.hidden(s)] if hidden else []
    return list(dict.fromkeys(state for _, state in found))


TOGETHER = 128
"""The number of expressions that are compiled together."""
MANY = 1 << 18
"""The number of states above which optimized code pays off."""
STATES = 1 << 14
"""The number of states that are evaluated at a time."""


def count(layout: Layout, nodes: Sequence[Node], states: Words) -> list[int]:
    """For each expression, the number of packed states in which it holds.

    Raises EngineError if an expression may need more than 62 bits.
    """
    known: dict[int, int] = {}
    distinct = {node.id: node for node in nodes}
    for node in list(distinct.values()):
        if node.is_const:
            known[node.id] = len(states) if node.value else 0
            del distinct[node.id]
    # Expressions of one instance share many nodes, so they are compiled together.
    waiting = list(distinct.values())
    effort = Effort.USUAL if len(states) >= MANY else Effort.QUICK
    for start in range(0, len(waiting), TOGETHER):
        some = waiting[start : start + TOGETHER]
        asked, totals = Evaluation(layout, some, effort), np.zeros(len(some), dtype=np.int64)
        for first in range(0, len(states), STATES):
            columns = asked(states[first : first + STATES])
            totals += [np.count_nonzero(column) for column in columns]
        known |= {node.id: int(total) for node, total in zip(some, totals, strict=True)}
    return [known[node.id] for node in nodes]


GUARD, BRANCH = "guard", "branch"


@dataclass(frozen=True)
class Site:
    """A place in the source that has counts: a guard, or a branch (``where``). ``place`` is ``file:line``."""

    kind: str
    place: str
    name: str
    action: str


@dataclass(frozen=True)
class SiteQuestion:
    """Three conditions on a state, for a site and one combination of its action's parameter values.

    For a guard: the guard is true; it is false; it is the only false guard. For a branch, if all guards before the
    branch are true: its condition is true; its condition is false; the third condition is not used.
    """

    site: Site
    nodes: tuple[Node, Node, Node]


def questions(model: Model) -> Iterator[SiteQuestion]:
    """The ``SiteQuestion`` of each guard and each branch, for each instance of a model's actions."""
    for instance in model.instances:
        yield from _guards(instance)
        yield from _branches(model, instance)


def _guards(instance: Instance) -> Iterator[SiteQuestion]:
    name, guards = instance.action.name, instance.guards
    for number, guard in enumerate(guards):
        others = graph.all_(g.node for i, g in enumerate(guards) if i != number)
        refuses = graph.not_(guard.node)
        site = Site(GUARD, guard.place or name, guard.name, name)
        yield SiteQuestion(site, (guard.node, refuses, graph.and_(refuses, others)))


def _branches(model: Model, instance: Instance) -> Iterator[SiteQuestion]:
    """The ``SiteQuestion`` of each ``where`` in an instance, except those with a constant condition.

    To find them, the action is traced again.
    """
    found: dict[tuple[str, int], SiteQuestion] = {}
    name = instance.action.name

    def watch(condition: Node, where: str | None) -> None:
        if condition.is_const or where is None or (where, condition.id) in found:
            return
        before = graph.all_(g.node for g in guards_so_far())
        nodes = (graph.and_(before, condition), graph.and_(before, graph.not_(condition)), graph.FALSE)
        found[where, condition.id] = SiteQuestion(Site(BRANCH, where, "where", name), nodes)

    choice = {
        parameter: next(
            v for v in parameter_values(model.protocol, instance.action, parameter) if v[1] == value
        )
        for parameter, value in instance.parameters.items()
        if parameter in instance.action.domains
    }
    with watching(watch):
        for _ in trace_instances(model.protocol, model.leaves, model.inputs, instance.action, choice):
            pass
    yield from found.values()


@dataclass
class RuleUse:
    """How often a rule makes a difference, in numbers of pairs (state, parameter values of an action).

    - ``forbids``: in how many pairs the action is enabled only without the rule
    - ``allows``: in how many pairs the action is enabled only with the rule
    - ``changes``: in how many pairs the action is enabled both ways, but leads to different states
    - ``actions``: the actions that the rule affects in some state
    - ``asked``: False if nothing is counted: without the rule, the protocol has other state fields or cannot be traced
    """

    name: str
    forbids: int = 0
    allows: int = 0
    changes: int = 0
    actions: tuple[str, ...] = ()
    asked: bool = True

    def add(self, actions: Sequence[str], forbids: int, allows: int, changes: int) -> None:
        """Add the counts, and the actions if one of the counts is above zero."""
        self.forbids += forbids
        self.allows += allows
        self.changes += changes
        if allows or forbids or changes:
            self.actions = tuple(dict.fromkeys([*self.actions, *actions]))

    @property
    def decides(self) -> int:
        """The number of pairs in which the rule makes a difference."""
        return self.forbids + self.allows + self.changes


def uses(model: Model, states: Words) -> list[RuleUse]:
    """For each rule that is on, how often the rule makes a difference in packed states."""
    found, prints = [], Fingerprints()
    asked: list[tuple[str, RuleUse, Instance | None, Instance | None]] = []
    for name in sorted(model.protocol.rules_on):
        use = RuleUse(name)
        found.append(use)
        without = _without(model, name)
        if without is None:
            use.asked = False
            continue
        old, new = by_action(without), by_action(model)
        for action in dict.fromkeys([*new, *old]):
            for a, b in instances_of_both(old.get(action, []), new.get(action, [])):
                if a is None or b is None or prints.instance(a) != prints.instance(b):
                    asked.append((action, use, a, b))
    # The questions about one instance share many nodes, so they are evaluated together.
    order = [action.name for action in model.protocol.actions()]
    asked.sort(key=lambda one: (order.index(one[0]), id(one[3])))
    nodes = [node for _, _, a, b in asked for node in questions_of_both(a, b, model.inputs)]
    totals = iter(count(Layout(model.leaves), nodes, states))
    for action, use, *_ in asked:
        allows, forbids, changes = next(totals), next(totals), next(totals)
        use.add([action], forbids, allows, changes)
    return found


def _without(model: Model, rule: str) -> Model | None:
    """The model with one rule off; None if it has other state fields than ``model``, or cannot be traced."""
    try:
        protocol = type(model.protocol)(vars(model.protocol.p), model.protocol.rules_on - {rule})
        without = Model(protocol)
    except LanguageError:
        return None
    return without if without.leaves == model.leaves else None
