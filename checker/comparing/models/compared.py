"""Comparing a model with that of another revision.

First by their expressions: which actions and properties have other ones (names aside), and which guards came or went.
Then by their states: both are explored, every action is asked in every state that both reach, and the states that only
one of them reaches are found, with a shortest run to one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from highwater.checker.asking.model_key import Fingerprints
from highwater.checker.comparing.models.differences import Comparison, Expressions
from highwater.checker.comparing.models.revisions import Image, RestoredModel
from highwater.checker.comparing.models.states import States
from highwater.model.language.model import Model
from highwater.model.language.types import Leaf

LIMIT_STATES = 2_000_000
"""So many states of each revision are explored for an explanation."""


def compare(
    scenario: str,
    before: Image,
    after: Model,
    asked: Any,
    *,
    limit_states: int = LIMIT_STATES,
) -> Comparison:
    """Compare a revision's image of a scenario with the model that is traced now; ``asked`` is its request."""
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
    """The model of an image, laid out as the one of now where that is possible, and how: see ``_order``."""
    order = _order(RestoredModel(before).own_leaves, after.leaves)
    return RestoredModel(before, None if order is None else after.protocol.state, order), order


def _settings(found: Comparison, before: Image, asked: Any) -> None:
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
