"""The differences between two revisions of a scenario: in expressions, in actions, in states, and as report text.

To compare states, both revisions are explored. Every changed action is compared in every state that both reach. For a
state that only one revision reaches, the report has a shortest run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwater.checker.comparing.revisions import Image, RestoredModel
from highwater.checker.engines.native.instructions import evaluated
from highwater.checker.engines.native.state_graph import explore
from highwater.checker.engines.solver.difference import (
    Pair,
    Union,
    changes,
    instances_of_both,
    nearest_witness,
    questions_of_both,
    special,
    why_not,
)
from highwater.checker.engines.solver.terms import Limits, Stopped
from highwater.checker.engines.state_graph import Explored
from highwater.checker.report.page.run import ShownRun, taken
from highwater.checker.scenarios.model_key import Fingerprints, by_action
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import Model
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import BoundError, Interpreter
from highwater.model.language.model import Instance
from highwater.model.language.types import Leaf


@dataclass
class ActionChange:
    """An action with changed expressions, and its differences in the states that both revisions reach.

    The counts are numbers of pairs (state, parameter values): ``gained`` are enabled only now, ``lost`` were enabled
    only before, ``otherwise`` now lead to another state. ``examples`` has one example of each kind of difference, in
    the shallowest state, or one example in the state of ``unreached``.
    """

    action: str
    before: str
    guards_gone: list[str] = field(default_factory=list)
    guards_new: list[str] = field(default_factory=list)
    guards_changed: list[str] = field(default_factory=list)
    writes_changed: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    gained: int = 0
    lost: int = 0
    otherwise: int = 0
    asked: bool = False
    examples: list[str] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)
    """A state in which the action differs and that the scenario does not reach, as changes of the initial state. Empty
    if a reached state shows a difference, or if no such state is known."""
    beyond: str = ""
    """"none" if the action does the same in every other state; the reason if the solver gave no answer; else ""."""

    @property
    def same_so_far(self) -> bool:
        """True if the action did the same in every state that was compared."""
        return self.asked and not (self.gained or self.lost or self.otherwise)


@dataclass
class Comparison:
    """The differences of one scenario between two revisions.

    ``states`` is the number of states that both revisions reach. ``whole`` is true if both were explored completely.
    """

    scenario: str
    renamed: list[tuple[str, str, str]] = field(default_factory=list)
    actions: list[ActionChange] = field(default_factory=list)
    actions_gone: list[str] = field(default_factory=list)
    actions_new: list[str] = field(default_factory=list)
    properties: list[str] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)
    same_graph: bool = False
    reordered: bool = False
    fields: list[str] = field(default_factory=list)
    """Scalars that only one revision has. If there are any, the states cannot be compared."""
    states: int | None = None
    whole: bool = False
    depth: int = 0
    new_states: int = 0
    lost_states: int = 0
    to_new: ShownRun | None = None
    to_lost: ShownRun | None = None


def lines(found: Comparison) -> Iterator[str]:
    """The lines of the text report about one scenario."""
    for kind, was, now in found.renamed:
        yield f"renamed: {kind} {was} → {now}"
    yield from found.settings
    if found.reordered:
        yield "the fields of the state are in another order"
    if found.same_graph:
        yield "nothing else differs: the expressions are the same"
        return
    if found.fields:
        yield f"the states cannot be compared; only one revision has {', '.join(found.fields)}"
    yield from (f"action {name} is gone" for name in found.actions_gone)
    yield from (f"action {name} is new" for name in found.actions_new)
    yield from (f"property {text}" for text in found.properties)
    for change in found.actions:
        yield from _action_lines(found, change)
    if found.states is not None:
        yield from _state_lines(found)


def _action_lines(found: Comparison, change: ActionChange) -> Iterator[str]:
    what = [
        f"{word} {', '.join(f'“{n}”' for n in names)}"
        for word, names in (
            ("without guard", change.guards_gone),
            ("with a new guard", change.guards_new),
            ("another condition in guard", change.guards_changed),
        )
        if names
    ]
    if change.writes_changed:
        shown = change.writes_changed[:4]
        more = f" and {len(change.writes_changed) - 4} more" if len(change.writes_changed) > 4 else ""
        what.append(f"another value for {', '.join(shown)}{more}")
    places = f" ({', '.join(change.places[:4])})" if change.places else ""
    yield f"action {change.action}: {'; '.join(what) or 'other expressions'}{places}"
    if not change.asked:
        return
    if change.same_so_far:
        yield f"  it does the same in each of the {found.states:,} states that both revisions reach"
        yield from _beyond_lines(change)
    for word, count in (
        ("can be taken where it could not", change.gained),
        ("cannot be taken where it could", change.lost),
        ("leads elsewhere", change.otherwise),
    ):
        if count:
            yield f"  {word}: in {count:,} cases (a state and a choice of parameters)"
    if not change.same_so_far:
        yield from (f"    {example}" for example in change.examples)


def _beyond_lines(change: ActionChange) -> Iterator[str]:
    """The lines about an action's differences in states that the scenario does not reach."""
    if change.beyond == "none":
        yield "  and in every other state within the types that has the invariants"
    elif change.beyond:
        yield f"  other states are unknown: {change.beyond}"
    if change.unreached:
        yield "  but not in this state, which the scenario does not reach (changes from the initial state):"
        yield from (f"    {line}" for line in change.unreached)
        yield from (f"    {example}" for example in change.examples)
        yield "    it is unknown whether a scenario with larger bounds reaches it"


def _state_lines(found: Comparison) -> Iterator[str]:
    extent = "" if found.whole else f" within depth {found.depth}, as deep as both searches went"
    if not found.new_states and not found.lost_states:
        yield f"both revisions reach the same {found.states:,} states{extent}"
        return
    for count, word, run in (
        (found.new_states, "now, not before", found.to_new),
        (found.lost_states, "before, not any more", found.to_lost),
    ):
        if run is None:
            continue
        yield f"{count:,} states are reached {word}{extent}; the nearest one at depth {len(run.steps)}:"
        width = max(len(s.sentence) for s in run.steps)
        for number, (sentence, changed) in enumerate(steps_of(run), 1):
            yield f"  {number:3}  {sentence:{width}}  {changed}".rstrip()


def steps_of(run: ShownRun) -> Iterator[tuple[str, str]]:
    """The sentence of each step of a run and the step's changes, as texts."""
    for step in run.steps:
        if step.base is None:
            yield step.sentence, ""
        else:
            changed = changes(step.model, run.steps[step.base].state, step.state)
            yield step.sentence, "; ".join(changed) or "nothing changes"


class Expressions:
    """Compares the expressions of two revisions: actions, guards and properties."""

    def __init__(
        self, old: RestoredModel, new: Model, prints: Fingerprints, found: Comparison, order: list[int] | None
    ) -> None:
        self.old, self.new, self.prints, self.found = old, new, prints, found
        self.comparable = order is not None
        if order is not None:
            for leaf, number in zip(old.own_leaves, order, strict=True):
                if leaf.path != new.leaves[number].path:
                    found.renamed.append(("field", leaf.path, new.leaves[number].path))

    def describe(self) -> None:
        """Add the differences of expressions to the comparison."""
        before, after = by_action(self.old), by_action(self.new)
        pairs = self._pairs(before, after)
        for name, was in pairs.items():
            if name != was:
                self.found.renamed.append(("action", was, name))
            change = self._action(name, was, before[was], after[name])
            if change is not None:
                self.found.actions.append(change)
        self.found.actions_gone = sorted(set(before) - set(pairs.values()))
        self.found.actions_new = sorted(set(after) - set(pairs))
        self._properties()

    def _pairs(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, str]:
        """The former name of each action by its present name. Renamed actions are found by equal expressions."""
        pairs = {name: name for name in after if name in before}
        gone = {self.prints.action(own): name for name, own in before.items() if name not in after}
        for name, own in after.items():
            was = None if name in pairs else gone.pop(self.prints.action(own), None)
            if was is not None:
                pairs[name] = was
        return pairs

    def _action(
        self, name: str, was: str, before: list[Instance], after: list[Instance]
    ) -> ActionChange | None:
        if self.comparable and self.prints.action(before) == self.prints.action(after):
            old, new = (list(dict.fromkeys(g.name for i in own for g in i.guards)) for own in (before, after))
            if len(old) == len(new):
                self.found.renamed += [
                    ("guard", a, b) for a, b in zip(old, new, strict=True) if a != b and b not in old
                ]
            return None
        change = ActionChange(name, was)
        old_guards, new_guards = self._guards(before), self._guards(after)
        change.guards_gone = [g for g in old_guards if g not in new_guards]
        change.guards_new = [g for g in new_guards if g not in old_guards]
        if not self.comparable:  # other types lead to other expressions, so only names are compared
            return change if change.guards_gone or change.guards_new else None
        change.guards_changed = [g for g in new_guards if g in old_guards and old_guards[g] != new_guards[g]]
        old_writes, new_writes = self._writes(before, self.old.leaves), self._writes(after, self.new.leaves)
        change.writes_changed = [
            p for p in sorted({*old_writes, *new_writes}) if old_writes.get(p) != new_writes.get(p)
        ]
        changed = {*change.guards_changed, *change.guards_new}
        places = [g.place for i in after for g in i.guards if g.name in changed]
        numbers = {leaf.path: n for n, leaf in enumerate(self.new.leaves)}
        for path in change.writes_changed:
            places += [i.writes[numbers[path]].place for i in after if numbers.get(path) in i.writes]
        change.places = sorted({p for p in places if p})
        return change

    def _guards(self, own: list[Instance]) -> dict[str, list[str]]:
        """For each guard, the fingerprints of its expressions, one for each instance."""
        found: dict[str, list[str]] = {}
        for i in own:
            for g in i.guards:
                found.setdefault(g.name, []).append(f"{self._parameters(i)}:{self.prints.node(g.node)}")
        return {name: sorted(keys) for name, keys in found.items()}

    def _writes(self, own: list[Instance], leaves: Sequence[Leaf]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for i in own:
            parts = [("", leaf, w.node) for leaf, w in i.writes.items()]
            for mark, leaf, node in [*parts, *(("!", c.leaf, c.node) for c in i.checks)]:
                key = f"{mark}{self._parameters(i)}:{self.prints.node(node)}"
                found.setdefault(leaves[leaf].path, []).append(key)
        return {path: sorted(keys) for path, keys in found.items()}

    @staticmethod
    def _parameters(instance: Instance) -> str:
        return repr(list(instance.parameters.values()))

    def _properties(self) -> None:
        before, after = (
            {p.name: self.prints.property(p) for p in model.properties}
            | {p.name: self.prints.step_property(p) for p in model.step_properties}
            | {p.name: self.prints.liveness(model, p) for p in model.liveness}
            for model in (self.old, self.new)
        )
        gone = {key: name for name, key in before.items() if name not in after}
        for name, key in after.items():
            if name not in before and key in gone:
                self.found.renamed.append(("property", gone.pop(key), name))
            elif name not in before:
                self.found.properties.append(f"{name} is new")
            elif self.comparable and before[name] != key:
                self.found.properties.append(f"{name} has another condition")
        self.found.properties += [f"{name} is gone" for name in gone.values()]


_TOGETHER = 16
"""The number of instances that are evaluated together; a result takes one byte per state."""
SECONDS = 20.0
"""The seconds that the solver has for one action."""
_WORDS = ("gained", "lost", "otherwise")
Answer = tuple[str, NDArray[np.bool_], Instance | None, Instance | None]


class States:
    """Compares the states that two revisions of a scenario reach."""

    def __init__(self, old: RestoredModel, new: Model, found: Comparison, limit_states: int) -> None:
        self.old, self.new, self.found = old, new, found
        options = SearchOptions(workers=1, limit_states=limit_states)
        self.before, self.after = explore(old, options), explore(new, options)

    def describe(self) -> None:
        """Add the differences of states and steps to the comparison."""
        found, before, after = self.found, self.before, self.after
        found.whole = before.complete and after.complete
        known_before, known_after = _keys(before.states), _keys(after.states)
        in_both = np.isin(known_after, known_before)
        found.states = int(in_both.sum())
        self._actions(in_both)
        found.depth = min(_levels(before), _levels(after))

        # If a search ended early, a state counts as new only up to the depth that both searches reached.
        def compared(explored: Explored) -> int:
            starts = explored.level_starts
            return len(explored.states) if found.whole else int(starts[min(found.depth, len(starts) - 1)])

        only_new = np.flatnonzero(~in_both[: compared(after)])
        only_old = np.flatnonzero(~np.isin(known_before[: compared(before)], known_after))
        found.new_states, found.lost_states = len(only_new), len(only_old)
        if len(only_new):
            found.to_new = _run(after, int(only_new[0]), self.new, "a state that was not reached before")
        if len(only_old):
            found.to_lost = _run(before, int(only_old[0]), self.new, "a state that is not reached any more")

    def _actions(self, in_both: NDArray[np.bool_]) -> None:
        old, new = by_action(self.old), by_action(self.new)
        for change in self.found.actions:
            change.asked = True
            first: dict[str, tuple[int, Instance | None, Instance | None]] = {}
            pairs = instances_of_both(old[change.before], new[change.action])
            for word, column, a, b in answers(self.after, self.new, pairs):
                column &= in_both
                if count := int(np.count_nonzero(column)):
                    setattr(change, word, getattr(change, word) + count)
                    index = int(np.argmax(column))
                    if word not in first or index < first[word][0]:
                        first[word] = index, a, b
            for word in _WORDS:
                if word in first:
                    index, a, b = first[word]
                    change.examples.append(
                        example((self.old, self.new), word, self.after.scalars(index), a, b)
                    )
            if change.same_so_far and self.found.whole:
                self._beyond(change, pairs)

    def _beyond(self, change: ActionChange, pairs: Sequence[Pair]) -> None:
        """Search for an unreached state in which an action differs between the revisions, and add it to ``change``.

        If no state is found, ``change.beyond`` gets the reason: there is none, or the solver gave no answer.
        """
        versions = self.new, self.old
        turned = [(b, a) for a, b in pairs]
        try:
            found = nearest_witness(Union.of(*versions), versions, turned, Limits(SECONDS))
        except Stopped as stopped:
            change.beyond = f"the solver was stopped ({stopped.why})"
            return
        if found is None:
            change.beyond = "none"
            return
        word = "lost" if found.first is None else "gained" if found.second is None else "otherwise"
        change.unreached = special(self.new, found.before)
        change.examples.append(example((self.old, self.new), word, found.before, *reversed(found.pair)))


def answers(explored: Explored, new: Model, pairs: Sequence[Pair]) -> Iterator[Answer]:
    """For each pair of instances and each kind of difference: the kind, a mask of states, and the pair.

    The mask has the explored states in which the pair has this difference. The kinds are those of ``_WORDS``, in
    order.
    """
    for start in range(0, len(pairs), _TOGETHER):
        some = pairs[start : start + _TOGETHER]
        nodes = [node for a, b in some for node in questions_of_both(a, b, new.inputs)]
        for number, column in enumerate(evaluated(explored, nodes)):
            yield _WORDS[number % len(_WORDS)], column, *some[number // len(_WORDS)]


def example(
    models: tuple[Model, Model], word: str, state: Scalars, a: Instance | None, b: Instance | None
) -> str:
    """An example of a difference as text: the step from one state, before and now.

    ``word`` is the kind of difference, one of ``_WORDS``.
    """
    step = b or a
    assert step is not None
    sentence, (old, new) = step.sentence, models
    if word == "otherwise":
        assert a is not None
        assert b is not None
        after = [_outcome(model, i, state) for model, i in ((old, a), (new, b))]
        was, now = (
            x if isinstance(x, str) else "; ".join(changes(new, state, x)) or "nothing changes" for x in after
        )
        return f"{sentence}: {was}; now: {now}"
    model, refused, other = (old, a, "before") if word == "gained" else (new, b, "now")
    return f"{sentence}: {other} {why_not(model, refused, state)}"


def _keys(states: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A 64-bit fingerprint of each packed state."""
    keys = np.zeros(len(states), dtype=np.uint64)
    for column in range(states.shape[1]):
        keys = (keys ^ states[:, column]) * np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(32)
        keys *= np.uint64(0xD6E8FEB86659FD93)
        keys ^= keys >> np.uint64(29)
    return keys


def _levels(explored: Explored) -> int:
    levels = len(explored.level_starts) - 1
    if explored.complete:
        return levels
    return int(np.searchsorted(explored.level_starts, explored.expanded, side="right"))


def _run(explored: Explored, state: int, drawn: Model, title: str) -> ShownRun:
    """A shortest run to state number ``state``, replayed by the interpreter.

    The HTML page draws the run as ``drawn.protocol`` defines it, because a restored model has no drawing.
    """
    first, path = explored.path(state)
    steps = tuple(taken(explored.model, explored.scalars(first), path))
    return ShownRun(title, "one revision only", steps, protocol=drawn.protocol)


def _outcome(model: Model, instance: Instance, state: Scalars) -> Scalars | str:
    try:
        number = next(n for n, i in enumerate(model.instances) if i is instance)
        step = Interpreter(model).step(state, number)
        return f"pruned at {step.cut}" if step.state is None else step.state
    except BoundError as wrong:
        return str(wrong)


LIMIT_STATES = 2_000_000
"""The most states of each revision that an explanation explores."""


def compare(
    scenario: str,
    before: Image,
    after: Model,
    request: Any,
    *,
    limit_states: int = LIMIT_STATES,
) -> Comparison:
    """Compare a revision's image of a scenario with the model that is traced now.

    ``request`` is the request for the model ``after``.
    """
    found = Comparison(scenario)
    old, order = restored(before, after)
    _settings(found, before, request)
    prints = Fingerprints()
    options_before, options_after = (
        (before["symmetry"], before["deadlock"]),
        (request.symmetry, request.deadlock),
    )
    found.same_graph = prints.model(old, *options_before) == prints.model(after, *options_after)
    found.reordered = order is not None and list(order) != sorted(order)
    if order is None:
        both = {leaf.path for leaf in old.leaves} ^ {leaf.path for leaf in after.leaves}
        found.fields = sorted(both) or ["types of the same fields"]
    Expressions(old, after, prints, found, order).describe()
    if not found.same_graph and order is not None:
        States(old, after, found, limit_states).describe()
    return found


def restored(before: Image, after: Model) -> tuple[RestoredModel, list[int] | None]:
    """The model of an image, in the layout of ``after`` if possible, and the result of ``_order``."""
    order = _order(RestoredModel(before).own_leaves, after.leaves)
    return RestoredModel(before, None if order is None else after.protocol.state, order), order


def _settings(found: Comparison, before: Image, request: Any) -> None:
    """Add changed parameters and rules, and rules with changed sentences, to the comparison."""
    for word, key in (("parameter", "parameters"), ("rule", "rules")):
        old, new = before[key], getattr(request, key)
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                a, b = (_setting(table.get(name)) for table in (old, new))
                found.settings.append(f"{word} {name}: {a} → {b}")
    rules = request.scenario.protocol.rules
    for name, (source, sentence) in before["sentences"].items():
        if name in rules and (rules[name].source, rules[name].sentence) != (source, sentence):
            found.settings.append(f"rule {name} ({source}) is stated otherwise: {rules[name].sentence}")


def _setting(value: object) -> str:
    words = {"None": "none", "True": "on", "False": "off"}
    return words.get(str(value), str(value))


def _order(before: Sequence[Leaf], after: Sequence[Leaf]) -> list[int] | None:
    """The present index of each former scalar; None if the states have other scalars.

    Scalars are matched by path; if the paths differ, by position. Matched scalars must have equal sorts and ranges.
    """
    kinds = [[(leaf.sort, leaf.low, leaf.high) for leaf in leaves] for leaves in (before, after)]
    paths = {leaf.path: i for i, leaf in enumerate(after)}
    if len(before) == len(after) == len(paths) and all(leaf.path in paths for leaf in before):
        order = [paths[leaf.path] for leaf in before]
        if all(kinds[0][i] == kinds[1][j] for i, j in enumerate(order)):
            return order
        return None
    return list(range(len(after))) if kinds[0] == kinds[1] else None
