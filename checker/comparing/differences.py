"""The differences between two revisions of a scenario: in expressions, in states, and as report text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from highwater.checker.comparing.revisions import RestoredModel
from highwater.checker.engines.solver.difference import changes
from highwater.checker.report.page.run import ShownRun
from highwater.checker.scenarios.model_key import Fingerprints, by_action
from highwater.model.language import Model
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
