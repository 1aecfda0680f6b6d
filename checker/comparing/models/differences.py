"""What two revisions of one protocol do otherwise, within one scenario: what was found, and how it is told.

``models`` finds it: by their expressions (``expressions``), then by their states (``states``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from highwater.checker.telling.page.shown import ShownRun


@dataclass(frozen=True)
class ToldStep:
    """A step of a run: the sentence, and what changed, in words."""

    sentence: str
    changes: str


@dataclass(frozen=True)
class ToldRun:
    """A shortest run to a state that only one revision reaches; ``shown`` is the same for a page."""

    steps: tuple[ToldStep, ...]
    shown: ShownRun | None = field(default=None, compare=False)

    @property
    def depth(self) -> int:
        """States of the run."""
        return len(self.steps)


@dataclass
class ActionChange:
    """An action whose expressions are others: what it does otherwise in the states that both revisions reach.

    Counts are of pairs (state, choice of parameters). ``examples`` tell one of each kind, in the shallowest state.
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
    """Where it does the same in each state that is reached: what of one in which it does not is not as at first."""
    beyond: str = ""
    """Where there is no such state: "none", or why nobody knows."""
    reached_by: str = ""
    """The scenario that reaches the state of ``unreached``; "" where nobody knows of one."""

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
    to_new: ToldRun | None = None
    to_lost: ToldRun | None = None

    @property
    def equivalent(self) -> bool:
        """Whether each expression that is another one is shown to do the same in every state."""
        others = (*self.actions_gone, *self.actions_new, *self.properties, *self.fields)
        same_states = self.whole and not (self.new_states or self.lost_states)
        same_steps = all(a.same_so_far and a.beyond == "none" and not a.reached_by for a in self.actions)
        return self.same_graph or (same_states and same_steps and not others)


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
    """What is known of states that the scenario does not reach."""
    if change.beyond == "none":
        yield "  and in every other state within the types that has the invariants"
    elif change.beyond and not change.reached_by:
        yield f"  of other states nothing is known: {change.beyond}"
    if change.unreached:
        who = f"{change.reached_by} reaches" if change.reached_by else "the scenario does not reach"
        yield f"  but not in this one, which {who} (what is not as in the initial state):"
        yield from (f"    {line}" for line in change.unreached)
        yield from (f"    {example}" for example in change.examples)
        if not change.reached_by:
            yield "    it is not known whether a scenario of larger bounds reaches it"


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
