"""Compare two revisions of a scenario: their expressions, their actions in every state, and their states.

Both revisions are explored. Every changed action is compared in every state that both reach. For a state that only
one revision reaches, the report has a shortest run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwater.checker.comparing.differences import (
    ActionChange,
    Comparison,
    Expressions,
)
from highwater.checker.comparing.revisions import Image, RestoredModel
from highwater.checker.engines.native.initial import evaluated
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
        # If a search ended early, a state counts as new only up to the depth that both searches reached.
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
        said = [
            x if isinstance(x, str) else "; ".join(changes(new, state, x)) or "nothing changes" for x in after
        ]
        return f"{sentence}: {said[0]}; now: {said[1]}"
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
    asked: Any,
    *,
    limit_states: int = LIMIT_STATES,
) -> Comparison:
    """Compare a revision's image of a scenario with the model that is traced now.

    ``asked`` is the request for the model ``after``.
    """
    found = Comparison(scenario)
    old, order = restored(before, after)
    _settings(found, before, asked)
    prints = Fingerprints()
    options_before, options_after = (before["symmetry"], before["deadlock"]), (asked.symmetry, asked.deadlock)
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


def _settings(found: Comparison, before: Image, asked: Any) -> None:
    """Add changed parameters and rules, and rules with changed sentences, to the comparison."""
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
