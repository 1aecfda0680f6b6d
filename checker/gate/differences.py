"""What two revisions of one protocol do otherwise, within one scenario.

First by their expressions: which actions and properties have other ones (names aside), and which guards came or went.
Then by their states: both are explored, every action is asked in every state that both reach, and the states that only
one of them reaches are found, with a shortest run to one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checker import words
from checker.explored import Explored
from checker.gate.fingerprints import Fingerprints, by_action
from checker.gate.restored import RestoredModel
from checker.native.explored import explore
from checker.search import SearchOptions
from model.language import graph
from model.language.graph import Node
from model.language.interpreter import BoundError, Interpreter
from model.language.model import Instance, Model, Scalars
from model.language.types import Leaf

LIMIT_STATES = 2_000_000
"""So many states of each revision are explored for an explanation."""
_TOGETHER = 16
"""So many instances are asked at a time: their answers, a byte a state, are in memory together."""
_WORDS = ("gained", "lost", "otherwise")


@dataclass(frozen=True)
class Step:
    """A step of a run: the sentence, and what changed, in words."""

    sentence: str
    changes: str


@dataclass(frozen=True)
class Run:
    """A shortest run to a state that only one revision reaches."""

    steps: tuple[Step, ...]

    @property
    def depth(self) -> int:
        """States of the run."""
        return len(self.steps)


@dataclass
class ActionChange:
    """An action whose expressions are others: what it does otherwise in the states that both revisions reach.

    Counts are of pairs (state, choice of parameters). ``example`` says one of them in words, in the shallowest state.
    """

    name: str
    before: str
    guards_gone: list[str] = field(default_factory=list)
    guards_new: list[str] = field(default_factory=list)
    guards_other: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    gained: int = 0
    lost: int = 0
    otherwise: int = 0
    asked: bool = False
    examples: list[str] = field(default_factory=list)

    @property
    def same_so_far(self) -> bool:
        """Whether it did the same wherever it was asked."""
        return self.asked and not (self.gained or self.lost or self.otherwise)


@dataclass
class Comparison:
    """What was found of one scenario. ``states`` is how many both reach, ``whole`` whether these are all."""

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
    """Scalars that only one revision has: then states cannot be compared."""
    states: int | None = None
    whole: bool = False
    depth: int = 0
    new_states: int = 0
    lost_states: int = 0
    to_new: Run | None = None
    to_lost: Run | None = None


def compare(
    scenario: str,
    before: Mapping[str, Any],
    after: Model,
    asked: Any,
    *,
    limit_states: int = LIMIT_STATES,
    explored: bool = True,
) -> Comparison:
    """Compare a revision's image of a scenario with the model that is traced now; ``asked`` is its request.

    Without ``explored`` only expressions are looked at.
    """
    found = Comparison(scenario)
    order = _order(RestoredModel(before).own_leaves, after.leaves)
    old = RestoredModel(before, None if order is None else after.protocol.state, order)
    _settings(found, before, asked)
    prints = Fingerprints()
    options_before, options_after = (before["symmetry"], before["deadlock"]), (asked.symmetry, asked.deadlock)
    found.same_graph = prints.model(old, *options_before) == prints.model(after, *options_after)
    found.reordered = order is not None and list(order) != sorted(order)
    if order is None:
        both = {leaf.path for leaf in old.leaves} ^ {leaf.path for leaf in after.leaves}
        found.fields = sorted(both) or ["types of the same fields"]
    _Pairs(old, after, prints, found, order).describe()
    if not found.same_graph and order is not None and explored:
        _States(old, after, found, limit_states).describe()
    return found


def _settings(found: Comparison, before: Mapping[str, Any], asked: Any) -> None:
    """What the scenario sets otherwise, and rules whose sentences are others."""
    for word, key in (("parameter", "parameters"), ("rule", "rules")):
        old, new = before[key], getattr(asked, key)
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                a, b = (_setting(table.get(name)) for table in (old, new))
                found.settings.append(f"{word} {name}: {a} → {b}")
    rules = asked.scenario.protocol.rules
    for name, (source, sentence) in before["sentences"].items():
        if name in rules and (rules[name].source, rules[name].sentence) != (source, sentence):
            found.settings.append(f"rule {name} ({source}) is stated otherwise: {rules[name].sentence}")


def _setting(value: object) -> str:
    return (
        "none"
        if value is None
        else {True: "on", False: "off"}[value]
        if isinstance(value, bool)
        else str(value)
    )


def _order(before: Sequence[Leaf], after: Sequence[Leaf]) -> list[int] | None:
    """The number now of each scalar of before; None where the states are not of the same scalars.

    Scalars are the same by their paths; where the paths differ, but the kinds in their order do not, by their places.
    """
    kinds = [[(leaf.sort, leaf.low, leaf.high) for leaf in leaves] for leaves in (before, after)]
    paths = {leaf.path: i for i, leaf in enumerate(after)}
    if len(before) == len(after) == len(paths) and all(leaf.path in paths for leaf in before):
        order = [paths[leaf.path] for leaf in before]
        if all(kinds[0][i] == kinds[1][j] for i, j in enumerate(order)):
            return order
        return None
    return list(range(len(after))) if kinds[0] == kinds[1] else None


class _Pairs:
    """Actions, guards and properties of both revisions side by side."""

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
        """Add what differs to what was found."""
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
        """Name now to name before; an action of another name is the same where its expressions are."""
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
        if not self.comparable:  # other types make other expressions: only names can be told apart
            return change if change.guards_gone or change.guards_new else None
        change.guards_other = [g for g in new_guards if g in old_guards and old_guards[g] != new_guards[g]]
        old_writes, new_writes = self._writes(before, self.old.leaves), self._writes(after, self.new.leaves)
        change.writes = [
            p for p in sorted({*old_writes, *new_writes}) if old_writes.get(p) != new_writes.get(p)
        ]
        changed = {*change.guards_other, *change.guards_new}
        places = [g.place for i in after for g in i.guards if g.name in changed]
        numbers = {leaf.path: n for n, leaf in enumerate(self.new.leaves)}
        for path in change.writes:
            places += [i.writes[numbers[path]].place for i in after if numbers.get(path) in i.writes]
        change.places = sorted({p for p in places if p})
        return change

    def _guards(self, own: list[Instance]) -> dict[str, list[str]]:
        """Each guard's expressions, instance by instance."""
        found: dict[str, list[str]] = {}
        for i in own:
            for g in i.guards:
                found.setdefault(g.name, []).append(f"{self._parameters(i)}:{self.prints.node(g.node)}")
        return {name: sorted(keys) for name, keys in found.items()}

    def _writes(self, own: list[Instance], leaves: Sequence[Leaf]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for i in own:
            for leaf, w in i.writes.items():
                found.setdefault(leaves[leaf].path, []).append(
                    f"{self._parameters(i)}:{self.prints.node(w.node)}"
                )
            for c in i.checks:
                found.setdefault(leaves[c.leaf].path, []).append(
                    f"!{self._parameters(i)}:{self.prints.node(c.node)}"
                )
        return {path: sorted(keys) for path, keys in found.items()}

    @staticmethod
    def _parameters(instance: Instance) -> str:
        return repr(list(instance.parameters.values()))

    def _properties(self) -> None:
        before, after = (
            {p.name: self.prints.property(p) for p in model.properties}
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
                self.found.properties.append(f"{name} asks for something else")
        self.found.properties += [f"{name} is gone" for name in gone.values()]


class _States:
    """Both revisions explored."""

    def __init__(self, old: RestoredModel, new: Model, found: Comparison, limit_states: int) -> None:
        self.old, self.new, self.found = old, new, found
        options = SearchOptions(workers=1, limit_states=limit_states)
        self.before, self.after = explore(old, options), explore(new, options)

    def describe(self) -> None:
        """Add what differs to what was found."""
        found, before, after = self.found, self.before, self.after
        found.whole = before.complete and after.complete
        known_before, known_after = _keys(before.states), _keys(after.states)
        in_both = np.isin(known_after, known_before)
        found.states = int(in_both.sum())
        self._actions(in_both)
        # Where a search ended early, a state counts as new only as deep as both searches have gone.
        found.depth = min(_levels(before), _levels(after))
        limit = (len(after.states), len(before.states))
        if not found.whole:
            limit = tuple(
                int(e.level_starts[min(found.depth, len(e.level_starts) - 1)]) for e in (after, before)
            )  # type: ignore[assignment]
        only_new = np.flatnonzero(~in_both[: limit[0]])
        only_old = np.flatnonzero(~np.isin(known_before[: limit[1]], known_after))
        found.new_states, found.lost_states = len(only_new), len(only_old)
        if len(only_new):
            found.to_new = run(after, int(only_new[0]))
        if len(only_old):
            found.to_lost = run(before, int(only_old[0]))

    def _actions(self, in_both: NDArray[np.bool_]) -> None:
        """Ask every changed action in every state that both reach."""
        old, new = by_action(self.old), by_action(self.new)
        for change in self.found.actions:
            change.asked = True
            first: dict[str, tuple[int, Instance | None, Instance | None]] = {}
            pairs = instances_of_both(old[change.before], new[change.name])
            for start in range(0, len(pairs), _TOGETHER):
                some = pairs[start : start + _TOGETHER]
                nodes = [node for a, b in some for node in questions_of_both(a, b, self.new.inputs)]
                columns = self.after.evaluate_all(nodes)
                for number, column in enumerate(columns):
                    column &= in_both
                    count, word = int(np.count_nonzero(column)), _WORDS[number % len(_WORDS)]
                    if count:
                        setattr(change, word, getattr(change, word) + count)
                        index = int(np.argmax(column))
                        if word not in first or index < first[word][0]:
                            first[word] = index, *some[number // len(_WORDS)]
            for word in _WORDS:
                if word in first:
                    index, a, b = first[word]
                    change.examples.append(self._example(word, self.after.scalars(index), a, b))

    def _example(self, word: str, state: Scalars, a: Instance | None, b: Instance | None) -> str:
        sentence = _sentence(b or a)
        if word == "otherwise":
            assert a is not None
            assert b is not None
            after = [_outcome(model, i, state) for model, i in ((self.old, a), (self.new, b))]
            said = [x if isinstance(x, str) else _changes(self.new, state, x) for x in after]
            return f"{sentence}: {said[0]}; now: {said[1]}"
        model, refused, other = (self.old, a, "before") if word == "gained" else (self.new, b, "now")
        if refused is None:
            return f"{sentence}: {other} there is no such step with these parameters"
        names = Interpreter(model).refusals(state, refused)
        why = " and ".join(f"“{n}”" for n in names) if names else "a bound"
        return f"{sentence}: {other} refused by {why}"


def instances_of_both(
    before: list[Instance], after: list[Instance]
) -> list[tuple[Instance | None, Instance | None]]:
    """The instances of an action in both revisions, by the values of their parameters in order."""
    old = {_values(i): i for i in before}
    new = {_values(i): i for i in after}
    return [(old.get(key), new.get(key)) for key in dict.fromkeys([*old, *new])]


def _values(instance: Instance) -> str:
    return repr([list(v) if isinstance(v, tuple) else v for v in instance.parameters.values()])


def questions_of_both(
    a: Instance | None, b: Instance | None, inputs: Sequence[Node]
) -> tuple[Node, Node, Node]:
    """Whether a step is possible now only, before only, or leads elsewhere."""
    before, after = (graph.FALSE if i is None else i.leads_on for i in (a, b))
    both = graph.and_(before, after)
    return (
        graph.and_(after, graph.not_(before)),
        graph.and_(before, graph.not_(after)),
        graph.FALSE if a is None or b is None else graph.and_(both, leads_elsewhere(a, b, inputs)),
    )


def leads_elsewhere(a: Instance, b: Instance, inputs: Sequence[Node]) -> Node:
    """Whether two steps from one state lead to different ones."""
    return graph.any_(
        graph.not_(graph.eq(*(i.writes[leaf].node if leaf in i.writes else inputs[leaf] for i in (a, b))))
        for leaf in sorted({*a.writes, *b.writes})
    )


def _keys(states: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A 64-bit fingerprint of each packed state, as the search has one: that two share it is as unlikely."""
    keys = np.zeros(len(states), dtype=np.uint64)
    for column in range(states.shape[1]):
        keys = (keys ^ states[:, column]) * np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(32)
        keys *= np.uint64(0xD6E8FEB86659FD93)
        keys ^= keys >> np.uint64(29)
    return keys


def _levels(explored: Explored) -> int:
    """So many levels were found whole."""
    levels = len(explored.level_starts) - 1
    if explored.complete:
        return levels
    return int(np.searchsorted(explored.level_starts, explored.expanded, side="right"))


def run(explored: Explored, state: int) -> Run:
    """A shortest run to a state, told by the interpreter."""
    model, interpreter = explored.model, Interpreter(explored.model)
    first, path = explored.path(state)
    scalars = explored.scalars(first)
    steps = [Step("initial state", "")]
    for number in path:
        after = interpreter.step(scalars, number).state
        assert after is not None
        steps.append(Step(_sentence(model.instances[number]), _changes(model, scalars, after)))
        scalars = after
    return Run(tuple(steps))


def _sentence(instance: Instance | None) -> str:
    assert instance is not None
    return instance.sentence if instance.action.says else str(instance)


def _outcome(model: Model, instance: Instance, state: Scalars) -> Scalars | str:
    try:
        number = next(n for n, i in enumerate(model.instances) if i is instance)
        step = Interpreter(model).step(state, number)
        return f"cut at {step.cut}" if step.state is None else step.state
    except BoundError as wrong:
        return str(wrong)


def _changes(model: Model, before: Scalars, after: Scalars) -> str:
    changes = Interpreter(model).changes(before, after)
    type_ = model.protocol.state
    told = [
        f"{path} {words.say(words.at(type_, path), a)} → {words.say(words.at(type_, path), b)}"
        for path, (a, b) in changes.items()
    ]
    return "; ".join(told) or "nothing changes"


def lines(found: Comparison) -> Iterator[str]:
    """What was found, in words."""
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
            ("another condition in guard", change.guards_other),
        )
        if names
    ]
    if change.writes:
        shown = change.writes[:4]
        more = f" and {len(change.writes) - 4} more" if len(change.writes) > 4 else ""
        what.append(f"another value for {', '.join(shown)}{more}")
    places = f" ({', '.join(change.places[:4])})" if change.places else ""
    yield f"action {change.name}: {'; '.join(what) or 'other expressions'}{places}"
    if not change.asked:
        return
    if change.same_so_far:
        yield f"  it does the same in each of the {found.states:,} states that both revisions reach"
    for word, count in (
        ("can be taken where it could not", change.gained),
        ("cannot be taken where it could", change.lost),
        ("leads elsewhere", change.otherwise),
    ):
        if count:
            yield f"  {word}: in {count:,} cases (a state and a choice of parameters)"
    yield from (f"    {example}" for example in change.examples)


def _state_lines(found: Comparison) -> Iterator[str]:
    extent = "" if found.whole else f" within depth {found.depth}, as deep as both searches went"
    if not found.new_states and not found.lost_states:
        yield f"both revisions reach the same {found.states:,} states{extent}"
        return
    for count, word, told in (
        (found.new_states, "now, not before", found.to_new),
        (found.lost_states, "before, not any more", found.to_lost),
    ):
        if told is None:
            continue
        yield f"{count:,} states are reached {word}{extent}; the nearest one at depth {told.depth}:"
        width = max(len(s.sentence) for s in told.steps)
        for number, step in enumerate(told.steps, 1):
            yield f"  {number:3}  {step.sentence:{width}}  {step.changes}".rstrip()


__all__ = ["LIMIT_STATES", "ActionChange", "Comparison", "Run", "Step", "compare", "lines", "run"]
