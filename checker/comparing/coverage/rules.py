"""What a rule makes of a set of states: where the protocol without it goes on otherwise.

A rule that is on is exercised by a state where some step could be taken without it and cannot with it, or the other way
round, or leads elsewhere. A set of states in which there is no such step says nothing about the rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from highwater.checker.asking.model_key import Fingerprints, by_action
from highwater.checker.comparing.coverage.counting import count
from highwater.checker.comparing.models.differences import instances_of_both, leads_elsewhere
from highwater.checker.engines.layout import Layout, Words
from highwater.checker.engines.native.code.machine import Effort
from highwater.checker.engines.native.evaluation import Evaluation
from highwater.model.language import graph
from highwater.model.language.errors import LanguageError
from highwater.model.language.model import Instance, Model


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

    def add(self, action: str, forbids: int, allows: int, changes: int) -> None:
        """Add what was counted of an action."""
        self.forbids += forbids
        self.allows += allows
        self.changes += changes
        if (allows or forbids or changes) and action not in self.actions:
            self.actions += (action,)

    @property
    def decides(self) -> int:
        """In how many cases it makes a difference."""
        return self.forbids + self.allows + self.changes


def uses(model: Model, states: Words) -> list[RuleUse]:
    """Each rule that is on, and what it decides in packed states."""
    found, prints = [], Fingerprints()
    asked: dict[tuple[str, int], _Asked] = {}
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
                    asked.setdefault((action, id(b)), _Asked(action, b)).others.append((use, a))
    layout = Layout(model.leaves)
    order = [action.name for action in model.protocol.actions()]
    for one in sorted(asked.values(), key=lambda one: order.index(one.action)):
        _ask(one, model, layout, states)
    return found


@dataclass
class _Asked:
    """A step of the model (None: there is none), and what it is without a rule, for each rule that it depends on."""

    action: str
    step: Instance | None
    others: list[tuple[RuleUse, Instance | None]] = field(default_factory=list)


def _without(model: Model, rule: str) -> Model | None:
    """The protocol without a rule; None where it has other states then, or cannot be."""
    try:
        protocol = type(model.protocol)(vars(model.protocol.p), model.protocol.rules_on - {rule})
        without = Model(protocol)
    except LanguageError:
        return None
    return without if without.leaves == model.leaves else None


def _ask(asked: _Asked, model: Model, layout: Layout, states: Words) -> None:
    """Ask one step in all states, for all rules together: without one or another it is much the same.

    Where it leads is asked only where it can be taken, which is in few states, as a rule.
    """
    here, there = _split(asked.step, layout, states)
    without = [graph.FALSE if a is None else a.leads_on for _, a in asked.others]
    elsewhere = [
        graph.FALSE if a is None or asked.step is None else leads_elsewhere(a, asked.step, model.inputs)
        for _, a in asked.others
    ]
    forbids = count(layout, without, there)
    allows = count(layout, [graph.not_(taken) for taken in without], here)
    changes = count(layout, [graph.and_(*both) for both in zip(without, elsewhere, strict=True)], here)
    for number, (use, _) in enumerate(asked.others):
        use.add(asked.action, forbids[number], allows[number], changes[number])


def _split(step: Instance | None, layout: Layout, states: Words) -> tuple[Words, Words]:
    """The states in which a step can be taken, and the others."""
    if step is None:
        return states[:0], states
    (possible,) = Evaluation(layout, [step.leads_on], Effort.QUICK)(states)
    return states[possible], states[~possible]
