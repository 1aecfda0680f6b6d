"""How the steps of a run are drawn, so that runs differ in kind and rare corners are come to.

A run in which every step is as likely as the others spends itself on what is always possible. In swarm testing
(Groce and others, ISSTA 2012) each run leaves some of it out. Here a run changes its taste every few steps: a taste
makes some actions up to 256 times as likely as others, so that for a while the followers only fetch, or the
controller is all that moves. Taste 0 likes all alike.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import cache

from hypothesis import strategies as st

from highwater.model.language.model import Model

TASTES = 256
"""So many tastes there are."""

WEIGHTS = (1, 4, 16, 64, 256)
"""How likely a taste can make an action, as against others."""

BURST = (8, 16)
"""The least and the most steps that are drawn at once: of one taste, and in one rule of Hypothesis."""

_orders = st.binary(min_size=BURST[0], max_size=BURST[1])

bursts = st.tuples(st.integers(0, TASTES - 1), _orders)
"""A taste, and an order of preference (one byte) for each step. Byte 0 is no step: a run shrinks in place."""

plain_bursts = st.tuples(st.just(0), _orders)
"""The same without swarm: of taste 0."""


class Preferences:
    """Orders of preference over the actions of a model and over its instances.

    A step is drawn as the number of an order, 1 to 255, and what is first in it and can be taken is taken: each
    action as likely as the taste has it, and of its instances each as the others. A number means the same step wherever
    that can be taken and nothing before it can, so a run keeps its sense when Hypothesis leaves a step out; an index
    among the possible steps would mean other steps from there on.
    """

    def __init__(self, model: Model) -> None:
        self._names = sorted({i.action.name for i in model.instances})
        self._count = len(model.instances)
        self._actions = cache(self._order_of_actions)
        self._instances = cache(self._order_of_instances)
        self._weights = cache(self._taste)

    def action(self, taste: int, order: int, among: Sequence[str]) -> str:
        """The one of these actions that comes first."""
        if len(among) == 1:
            return among[0]
        place, weight = self._actions(order), self._weights(taste)
        return min(among, key=lambda name: place[name] / weight[name])

    def instance(self, order: int, among: Sequence[int]) -> int:
        """The one of these instances that comes first."""
        return among[0] if len(among) == 1 else min(among, key=self._instances(order).__getitem__)

    def _order_of_actions(self, order: int) -> dict[str, float]:
        # The least of exponential variables, each over its weight, is as likely to be one as its weight says.
        dice = random.Random(f"actions {order}")
        return {name: -math.log(1 - dice.random()) for name in self._names}

    def _order_of_instances(self, order: int) -> list[int]:
        places = list(range(self._count))
        random.Random(f"instances {order}").shuffle(places)
        return places

    def _taste(self, taste: int) -> dict[str, int]:
        dice = random.Random(f"taste {taste}")
        return {name: dice.choice(WEIGHTS) if taste else 1 for name in self._names}
