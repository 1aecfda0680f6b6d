"""Properties of a topic of two partitions: the properties of one partition (``controller.py``), for both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

from highwater.invariants.replication import controller
from highwater.model.language import Invariant, Liveness, State, Truth, all_of
from highwater.model.replication.topic import Topic

_PLACES = ("first", "second")


def _of_both(stated: Invariant) -> Invariant:
    """The invariant that holds if ``stated`` holds for both partitions, under the name of ``stated``."""

    @wraps(stated.function)
    def holds(m: Topic, s: State) -> Truth:
        return all_of(stated.function(m, view) for view in m.views(s))

    return replace(stated, function=holds)


def _of_one(stated: Liveness, place: int) -> Liveness:
    """The liveness property ``stated`` for one partition: the first if ``place`` is 0, the second if it is 1.

    One property for both partitions would require that both reach their goals at the same time.
    """

    @wraps(stated.function)
    def holds(m: Topic, s: State) -> Any:
        goal: Callable[[Any, Any], Any] = stated.function
        return goal(m, m.views(s)[place])

    return replace(stated, name=f"{stated.name}_{_PLACES[place]}", function=holds)


INVARIANTS = tuple(_of_both(stated) for stated in controller.INVARIANTS)
LIVENESS = tuple(_of_one(stated, place) for place in (0, 1) for stated in controller.LIVENESS)
