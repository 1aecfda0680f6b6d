"""Durations in message delays, computed on an explored graph.

Each message takes one delay from sending to handling; messages in flight together count once. A local step of a party
takes no time. A timer runs from the moment it is set and outlasts any number of delays here. The order of steps within
one moment is open: ``least`` and ``most`` range over all orders.

A message in flight is represented by the enabled step that handles it. The action of a step gives the kind of the step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from highwater.checker.engines.state_graph import Explored


@dataclass(frozen=True)
class Kinds:
    """The names of actions by kind: they handle a message, are local and take no time, or are timers.

    Actions of no kind are left out when durations are computed.
    """

    messages: Collection[str]
    at_once: Collection[str]
    timers: Collection[str]


@dataclass(frozen=True, order=True)
class Time:
    """A duration: a number of timer periods (``waits``), plus a number of message delays, which may be negative."""

    waits: int
    delays: int

    def __add__(self, other: Time) -> Time:
        return Time(self.waits + other.waits, self.delays + other.delays)

    def __sub__(self, other: Time) -> Time:
        return Time(self.waits - other.waits, self.delays - other.delays)


_NOW, _DELAY, _WAIT = Time(0, 0), Time(0, 1), Time(1, 0)


@dataclass(frozen=True)
class Moment:
    """A state at one point in time.

    ``left`` has the steps that must still be taken at this time. ``running`` has the running timers, each with its
    remaining time. Steps and timers are instances of the model.
    """

    state: int
    left: frozenset[int] = frozenset()
    running: frozenset[tuple[int, Time]] = frozenset()


class Delays:
    """Computes durations on an explored graph."""

    def __init__(self, graph: Explored, kinds: Kinds) -> None:
        self.graph = graph
        names = [instance.action.name for instance in graph.model.instances]
        self._messages = frozenset(i for i, name in enumerate(names) if name in kinds.messages)
        self._at_once = frozenset(i for i, name in enumerate(names) if name in kinds.at_once)
        self._timers = frozenset(i for i, name in enumerate(names) if name in kinds.timers)

    def steps(self, state: int) -> dict[int, int]:
        """The steps of a state: by instance, the state to which it leads."""
        here = slice(int(self.graph.offsets[state]), int(self.graph.offsets[state + 1]))
        instances, targets = self.graph.instances[here].tolist(), self.graph.targets[here].tolist()
        return dict(zip(instances, targets, strict=True))

    def span(self, start: int, goal: Callable[[int], bool]) -> tuple[Time | None, Time | None]:
        """The least time (None: never) and the most time (None: unlimited) from a state until the goal holds.

        Messages that are in flight in ``start`` take a whole delay.
        """
        first = self._reached(start, frozenset(), {})
        order, after = self._moments(first, goal)
        least: dict[Moment, Time] = {}
        most: dict[Moment, Time | None] = {}
        # ``order`` has each moment after its successors, except in loops: there a successor may have no time yet.
        # A state that can stay in a loop has no most time; its least time is the time of a way out of the loop.
        for moment in order:
            if goal(moment.state):
                least[moment] = most[moment] = _NOW
                continue
            ways = after[moment]
            worst: Time | None = None
            for cost, follower in ways:
                late = most.get(follower)
                if late is None:
                    worst = None
                    break
                worst = max(worst or _NOW, cost + late)
            most[moment] = worst
        changed = True
        while changed:
            changed = False
            for moment in order:
                ways = after.get(moment, [])
                found = [cost + least[follower] for cost, follower in ways if follower in least]
                if found and (moment not in least or min(found) < least[moment]):
                    least[moment] = min(found)
                    changed = True
        return least.get(first), most[first]

    def _moments(
        self, first: Moment, goal: Callable[[int], bool]
    ) -> tuple[list[Moment], dict[Moment, list[tuple[Time, Moment]]]]:
        """All moments reachable from ``first``, and for each moment its successors with their costs.

        The list has each moment after its successors. A moment at which the goal holds has no successors.
        """
        after: dict[Moment, list[tuple[Time, Moment]]] = {}
        order: list[Moment] = []
        stack: list[tuple[Moment, bool]] = [(first, False)]
        while stack:
            moment, done = stack.pop()
            if done:
                order.append(moment)
            elif moment not in after:
                after[moment] = [] if goal(moment.state) else self._next(moment)
                stack.append((moment, True))
                stack.extend((follower, False) for _, follower in after[moment] if follower not in after)
        return order, after

    def _next(self, moment: Moment) -> list[tuple[Time, Moment]]:
        steps, running = self.steps(moment.state), dict(moment.running)
        for instance in self._at_once & steps.keys():
            return [(_NOW, self._reached(steps[instance], moment.left, running))]
        if now := moment.left & steps.keys():
            return [(_NOW, self._reached(steps[i], frozenset(now - {i}), running)) for i in sorted(now)]
        under_way = self._messages & steps.keys()
        if not under_way and not running:
            return []
        passed = min([_DELAY] * bool(under_way) + list(running.values()))
        due = {i for i, time in running.items() if time == passed}
        later = {i: time - passed for i, time in running.items() if i not in due}
        left = frozenset(due | (under_way if passed == _DELAY else frozenset()))
        return [(passed, Moment(moment.state, left, frozenset(later.items())))]

    def _reached(self, state: int, left: frozenset[int], running: dict[int, Time]) -> Moment:
        """The moment after a step to ``state``, where the steps ``left`` remain to be taken.

        A timer runs on, or starts, if it is enabled in ``state`` and its step is not in ``left``; all others stop.
        """
        timers = (self._timers & self.steps(state).keys()) - left
        return Moment(state, left, frozenset((i, running.get(i, _WAIT)) for i in timers))
