"""Raft logs explained: for each line the step of the model that it tells of, from the state that those before it make.

What a node does in one go is told by several lines: a message taken, then what came of it. Such a *turn* begins with a
message, or an append; the model says what has to follow, and each line is held against that. Fetches are in
``fetches.py``, leaders in ``leaders.py``, votes and roles in ``elections.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from highwater.traces.raft import events as e
from highwater.traces.raft.belief import UNKNOWN, Belief, Log, Node, Parked, Response
from highwater.traces.raft.judge import Judge, Outcome
from highwater.traces.raft.order import Exchange, Order
from highwater.traces.raft.window import TooLarge, Window
from highwater.traces.reports.findings import Candidate, Unexplained

Differences = dict[str, tuple[Any, Any]]


@dataclass
class Turn:
    """What a node is at, and what is still to be told of it.

    ``hwm`` is where its HWM has to go. ``answers`` are those that it has to send, by the member; of them ``completed``
    end a parked fetch, and those that were ``seen`` to are told. ``pending``: it took an answer and did not use it yet.
    """

    what: e.What
    event: e.Event
    exchange: Exchange | None = None
    hwm: int | None = None
    hwm_before: int = UNKNOWN
    seen_hwm: bool = False
    answers: dict[int, dict[str, Any]] = field(default_factory=dict)
    completed: dict[int, Parked] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    pending: bool = False
    roles: list[int | None] = field(default_factory=list)
    """Whom it has voted for, in each of the lines that are still to say what it is now."""


class Explainer:
    """Holds events, in order, against the model. ``explained`` counts by action, as ``guessed`` and ``outside`` do."""

    def __init__(self, judge: Judge, order: Order, voters: tuple[int, ...]) -> None:
        self.judge, self.order = judge, order
        self.belief = Belief(voters)
        self.turns: dict[int, Turn] = {}
        # Nodes whose process was seen to begin: before that they may have sent what is in no line.
        self.begun: set[int] = set()
        # Nodes that tell each move of the HWM in two lines, as Kafka does.
        self.double: set[int] = set()
        # Answers that were under way when their members fetched anew, and where from that was.
        self.late: dict[int, tuple[Response, int]] = {}
        self.explained: Counter[str] = Counter()
        self.guessed: Counter[str] = Counter()
        self.outside: Counter[str] = Counter()
        self.unexplained: list[Unexplained] = []
        self.unexplained_count = 0
        self.event: e.Event | None = None
        self.limit = 100

    # --- what is found ------------------------------------------------------------------------------------------

    def explain(self, action: str, parameters: dict[str, Any], differences: Differences) -> None:
        """A line is as the model says, or differs in these fields: the model's value, and what was recorded."""
        found = {name: pair for name, pair in differences.items() if pair[0] != pair[1]}
        if found:
            self.fail(action, parameters, differences=found)
        else:
            self.explained[action] += 1

    def fail(
        self,
        action: str,
        parameters: dict[str, Any],
        refused: Iterable[str] = (),
        differences: Differences | None = None,
        event: e.Event | None = None,
    ) -> None:
        """A line is not explained: the action that comes near, and why it is not it."""
        event = event or self.event
        assert event is not None
        self.unexplained_count += 1
        if len(self.unexplained) < self.limit:
            self.unexplained.append(
                Unexplained(
                    {"line": event.place.line},
                    event.time_ms,
                    f"node {event.node} ({event.place.path.parent.name}/{event.place.path.name})",
                    self._before(event.node),
                    (Candidate(action, parameters, tuple(refused), (), differences or {}),),
                )
            )

    def _before(self, number: int) -> dict[str, Any]:
        node = self.belief.node(number)
        log = node.log or Log()
        return {"epoch": node.epoch, "leader": node.leader, "leo": log.end, "hwm": node.hwm}

    def guess(self, what: str) -> None:
        """Something that no line tells has to have happened."""
        self.guessed[what] += 1

    # --- the model ----------------------------------------------------------------------------------------------

    def take(self, window: Window, action: str, **parameters: int) -> Outcome:
        """A step of the model. One that is about too much is refused with that as the reason."""
        try:
            return self.judge.take(window, action, **parameters)
        except TooLarge as large:
            return Outcome(None, (f"too much for the model here: {large}",))

    def adopt(self, window: Window, outcome: Outcome, number: int) -> None:
        """Take over what a step made of a member, its log apart."""
        assert outcome.after is not None
        node, after = self.belief.node(number), outcome.after["members"][window.slots[number]]
        node.epoch = window.epochs.value(after["epoch"])
        node.leader = window.id(after["leader"])
        node.hwm, node.peak = window.offsets.value(after["hwm"]), window.offsets.value(after["peak"])
        node.ballot = after["ballot"]
        node.granted = frozenset(window.ids[slot] for slot in after["granted"])
        node.voted = window.id(after["voted"])
        node.heard = bool(after["heard"])
        ends = (window.offsets.value(rank) for rank in after["fetched"])
        node.fetched = {window.ids[slot]: end for slot, end in enumerate(ends) if end != UNKNOWN}

    def log_of(self, node: Node, end: int, last_epoch: int) -> Log:
        """A member's log; where nothing was said of it yet, one that ends so, of one epoch."""
        if node.log is None:
            node.log = Log()
            if end > 0:
                self.guess("a log from before the recording")
                known = next((n.log for n in self.belief.nodes.values() if n.log and n.log.end >= end), None)
                node.log = known.copy() if known else Log([(0, last_epoch)], end)
                node.log.truncate(end)
        elif node.maybe_more is not None:
            upto, epoch = node.maybe_more
            if node.log.end < end <= upto and epoch == last_epoch:
                self.guess("an append whose line its process did not write any more")
                node.log.append(end, epoch)
            node.maybe_more = None
        return node.log
