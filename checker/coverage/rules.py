"""What a rule makes of a set of states: where the protocol without it goes on otherwise.

A rule that is on is exercised by a state where some step could be taken without it and cannot with it, or the other way
round, or leads elsewhere. A set of states in which there is no such step says nothing about the rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from checker.coverage.counting import count
from checker.gate.differences import instances_of_both, questions_of_both
from checker.gate.fingerprints import Fingerprints, by_action
from checker.native.layout import Layout, Words
from model.language.errors import LanguageError
from model.language.graph import Node
from model.language.model import Model


@dataclass
class RuleUse:
    """How often a rule decides. Counts are of pairs (state, choice of an action's parameters).

    ``forbids``: a step can be taken only without it; ``allows``: only with it; ``changes``: the step leads elsewhere.
    ``actions`` are those that it makes a difference to in some state. ``asked`` is false where the protocol without the
    rule has other states, or cannot be: then nothing is known.
    """

    name: str
    forbids: int = 0
    allows: int = 0
    changes: int = 0
    actions: tuple[str, ...] = ()
    asked: bool = True

    @property
    def decides(self) -> int:
        """In how many cases it makes a difference."""
        return self.forbids + self.allows + self.changes


def uses(model: Model, states: Words) -> list[RuleUse]:
    """Each rule that is on, and what it decides in packed states."""
    layout, prints = Layout(model.leaves), Fingerprints()
    found = []
    for name in sorted(model.protocol.rules_on):
        use = RuleUse(name)
        found.append(use)
        try:
            protocol = type(model.protocol)(vars(model.protocol.p), model.protocol.rules_on - {name})
            without = Model(protocol)
        except LanguageError:
            use.asked = False
            continue
        if without.leaves != model.leaves:
            use.asked = False
            continue
        _ask(use, without, model, prints, layout, states)
    return found


def _ask(
    use: RuleUse, without: Model, model: Model, prints: Fingerprints, layout: Layout, states: Words
) -> None:
    old, new = by_action(without), by_action(model)
    names: list[str] = []
    nodes: list[Node] = []
    for action in dict.fromkeys([*new, *old]):
        for a, b in instances_of_both(old.get(action, []), new.get(action, [])):
            if a is None or b is None or prints.instance(a) != prints.instance(b):
                names.append(action)
                nodes += questions_of_both(a, b, model.inputs)
    totals = count(layout, nodes, states)
    use.allows, use.forbids, use.changes = (sum(totals[i::3]) for i in range(3))
    use.actions = tuple(dict.fromkeys(n for i, n in enumerate(names) if any(totals[3 * i : 3 * i + 3])))


__all__ = ["RuleUse", "uses"]
