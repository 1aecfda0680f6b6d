"""Lines of raft logs as steps of the model: fetches, answers, appends and the HWM.

A node writes several lines for one step: a received message or an append, then the effects. These lines are a *turn*;
the model determines which effects must follow. ``quorum_roles.py`` handles votes and roles.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from highwater.traces.messages import raft_events as e
from highwater.traces.messages.context import Verdicts
from highwater.traces.messages.quorum import (
    UNKNOWN,
    Belief,
    Judge,
    Log,
    Node,
    Outcome,
    Parked,
    Response,
    TooLarge,
    Window,
)
from highwater.traces.messages.raft_events import Exchange, Order
from highwater.traces.reports.findings import Candidate, Unexplained
from highwater.traces.reports.report import Report

# --- explain ---------------------------------------------------------------------------------------------

Differences = dict[str, tuple[Any, Any]]


@dataclass
class Turn:
    """The lines that a node writes for one step, with the effects that no line has shown yet.

    ``hwm`` is the HWM to which the node must move. ``answers`` are the answers that it must send, by member. Answers
    that end a parked fetch have an entry in ``completed``; ``seen`` has the members whose completion a line reports.
    ``pending``: the node has not used the received answer yet.
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
    """The vote in each role line that must still follow; None if the line shows no vote."""


class Explainer:
    """Replays events in order in the model. The results are ``verdicts`` and the report's nonconforming lines."""

    def __init__(self, judge: Judge, order: Order, voters: tuple[int, ...], report: Report) -> None:
        self.judge, self.order = judge, order
        self.belief = Belief(voters)
        self.turns: dict[int, Turn] = {}
        # Nodes whose process start is in the logs. Before its start, a node may have sent requests that no line has.
        self.begun: set[int] = set()
        # Nodes that log each move of the HWM in two lines, as Kafka does.
        self.double: set[int] = set()
        # By member: an answer in flight when the member fetched again, and the node from which it fetched then.
        self.late: dict[int, tuple[Response, int]] = {}
        self.verdicts = Verdicts(report)
        self.event: e.Event | None = None

    # --- what is found ------------------------------------------------------------------------------------------

    def explain(self, action: str, parameters: dict[str, Any], differences: Differences) -> None:
        """Record that a line conforms, or report the fields that differ: (the model's value, the recorded value)."""
        found = {name: pair for name, pair in differences.items() if pair[0] != pair[1]}
        if found:
            self.fail(action, parameters, differences=found)
        else:
            self.verdicts.explained[action] += 1

    def fail(
        self,
        action: str,
        parameters: dict[str, Any],
        refused: Iterable[str] = (),
        differences: Differences | None = None,
        event: e.Event | None = None,
    ) -> None:
        """Report a line that no step explains, with the expected action and why it does not fit."""
        event = event or self.event
        assert event is not None
        self.verdicts.report.add(
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
        """Count an event that must have happened without a line."""
        self.verdicts.guessed[what] += 1

    # --- the model ----------------------------------------------------------------------------------------------

    def take(self, window: Window, action: str, **parameters: int) -> Outcome:
        """Take a step of the model. If the window is too large for the model, the outcome is a refusal."""
        try:
            return self.judge.take(window, action, **parameters)
        except TooLarge as large:
            return Outcome(None, (f"too much for the model here: {large}",))

    def adopt(self, window: Window, outcome: Outcome, number: int) -> None:
        """Copy a member's state after a step, except the log, into the belief."""
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
        """A member's log. According to a line it ends at offset ``end``, with a last record of epoch ``last_epoch``.

        If no earlier line has described the log, it counts as a prefix of another member's log that is long enough.
        A process may die before it logs an append. If such an append explains ``end``, its records are added.
        """
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


# --- fetches ---------------------------------------------------------------------------------------------


class Fetches(Explainer):
    """Handles the lines about fetches."""

    # --- the member that asks -----------------------------------------------------------------------------------

    def sent_fetch(self, event: e.Event, what: e.Sent, fetch: e.Fetch) -> None:
        """Handle a line: a member fetches from its LEO, with the HWM that it knows."""
        b, f = self.belief, event.node
        node = b.node(f)
        self.log_of(node, fetch.offset, fetch.last_epoch)
        if f in b.requests or f in b.parked or f in b.responses:
            self.guess("a fetch, or its answer, that was lost")
            if f in b.responses:
                self.late[f] = b.responses[f], what.to
            for under_way in (b.requests, b.parked, b.responses):
                under_way.pop(f, None)
        follows = node.leader == what.to and node.ballot == "none"
        looks = not follows
        before = node.leader, node.ballot
        if looks:
            # In the model, members fetch only from a known leader. A member that searches for one sends the same
            # fields.
            self.guess("a fetch to look for a leader")
            node.leader, node.ballot = next((v for v in b.voters if v != f), None), "none"
        window = Window(b, [f], [fetch.offset, fetch.hwm or 0])
        outcome = self.take(window, "send_fetch", f=window.slots[f])
        node.leader, node.ballot = before
        says = {"sender": f, "to": what.to}
        if outcome.after is None:
            self.fail("send_fetch", says, outcome.refused)
        else:
            sent = outcome.after["requests"][window.slots[f]]
            self.explain("send_fetch", says, {
                "sender": (f, fetch.sender),
                "epoch": (window.epochs.value(sent["epoch"]), fetch.epoch),
                "offset": (window.offsets.value(sent["offset"]), fetch.offset),
                "last_epoch": (window.epochs.value(sent["last_epoch"] or 0), fetch.last_epoch),
                "hwm": (None if sent["hwm"] is None else window.offsets.value(sent["hwm"]), fetch.hwm),
            })  # fmt: skip
        b.requests[f] = what.to, fetch

    def got_fetch_answer(self, event: e.Event, what: e.GotAnswer, exchange: Exchange | None) -> None:
        """Handle a line: an answer to a fetch arrives. The following lines show its effect."""
        b, f = self.belief, event.node
        if what.failed:
            self.verdicts.outside["an answer of the own client: the other could not be reached"] += 1
            if exchange is not None and b.requests.get(f, (None, None))[1] == exchange.request:
                b.requests.pop(f, None)
            b.responses.pop(f, None)
            return
        answer = what.message
        assert isinstance(answer, e.FetchAnswer)
        if self.order.has_log(what.source):
            self.explain("take_answer: as it was sent", {"member": f}, {
                "answer": (exchange and exchange.answer, answer),
            })  # fmt: skip
        if answer.error:
            self.verdicts.outside["an answer that is an error: it tells an epoch and a leader only"] += 1
            self.drop_response(f, exchange)
            return
        has_log = self.order.has_log(what.source)
        if (
            f not in b.responses
            and exchange is not None
            and isinstance(exchange.request, e.Fetch)
            and not has_log
        ):
            b.responses[f] = Response.of(answer, exchange.request.offset, None, exchange)
        if f not in b.responses and f in self.late and self.late[f][1] != what.source:
            # The member searches for a leader at several nodes at a time.
            b.responses[f] = self.late.pop(f)[0]
        self.turns[f] = Turn(what, event, exchange, pending=True, hwm_before=b.node(f).hwm)

    def drop_response(self, f: int, exchange: Exchange | None) -> None:
        """Drop the answer that is in flight to member ``f``, if it belongs to the exchange ``exchange``."""
        response = self.belief.responses.get(f)
        if response is not None and response.exchange is exchange:
            del self.belief.responses[f]

    def use_answer(self, turn: Turn, end: int | None, epoch: int | None) -> None:
        """Take a received fetch answer in the model, and compare the member's LEO and last epoch.

        ``end`` and ``epoch`` are the recorded LEO and last epoch; None if no line has them.
        """
        b, f = self.belief, turn.event.node
        node, response = b.node(f), b.responses.get(f)
        turn.pending = False
        if response is None:
            # The member ignores an answer to a fetch that it has given up.
            self.fail("take_answer", {"member": f}, ("an answer is under way",), event=turn.event)
            return
        log = self.log_of(node, response.offset, response.epoch)
        stretches = self._stretches(response, log, end)
        outcome: Outcome | None = None
        before = log.end
        for upto, of in stretches:
            b.responses[f] = replace(response, records=upto is not None, offset=log.end, source=None)
            window = Window(b, [f], [upto] if upto is not None else (), [of])
            state_record = upto is not None
            outcome = self._take_one(window, f, of if state_record else None)
            if outcome.after is None:
                break
            after = outcome.after["members"][window.slots[f]]
            self.adopt(window, outcome, f)
            length = window.offsets.value(len(after["log"]))
            if length < log.end:
                log.truncate(length)
            elif after["log"]:
                log.append(length, window.epochs.value(after["log"][-1]["epoch"]))
        b.responses.pop(f, None)
        if outcome is None or outcome.after is None:
            self.fail("take_answer", {"member": f}, outcome.refused if outcome else (), event=turn.event)
            return
        if response.records and end is None and log.end > before:
            # A member logs its new LEO after every answer with records. Without that line it dropped records that the
            # model takes.
            log.truncate(before)
            self.fail("take_answer", {"member": f}, differences={"appended": (True, False)}, event=turn.event)
            return
        told_end = end if end is not None else before if response.diverging is None else log.end
        differences: Differences = {"leo": (log.end, told_end)}
        if epoch is not None:
            differences["last_epoch"] = (log.last_epoch, epoch)
        recorded = log.copy()
        recorded.truncate(told_end)
        recorded.append(told_end, epoch if epoch is not None else response.epoch)
        node.log = recorded
        if node.hwm != turn.hwm_before:
            turn.hwm = node.hwm
        self.explain("take_answer", {"member": f}, differences)

    def _take_one(self, window: Window, f: int, epoch: int | None) -> Outcome:
        """Take the model's step for one stretch of an answer, with records of ``epoch`` (None: without records)."""
        response = self.belief.responses[f]
        if epoch is not None:
            response.source = Log([(0, epoch)], response.offset + 1)
        return self.take(window, "take_answer", f=window.slots[f])

    def _stretches(self, response: Response, log: Log, end: int | None) -> list[tuple[int | None, int]]:
        """Split an answer's records at epoch starts and at the HWM. Returns the end offset and epoch of each stretch.

        An answer without records is one stretch with the end None. ``end`` is the recorded LEO. If it is None or not
        above the LEO of ``log``, one record is assumed.
        """
        if not response.records:
            return [(None, response.epoch)]
        if end is None or end <= log.end:
            end = log.end + 1
        source = response.source
        starts = [start for start, _ in source.cuts] if source is not None else []
        ends = sorted({end, *(o for o in (*starts, response.hwm) if log.end < o < end)})
        found: list[tuple[int | None, int]] = []
        for upto in ends:
            found.append((upto, source.epoch_at(upto - 1) if source is not None else response.epoch))
        return found


# --- leaders ---------------------------------------------------------------------------------------------

EARLY, LATE = 0.9, 1.1
"""Fractions of a fetch's maximum wait time. Between them, it is uncertain whether the park timer fired.

The line with a fetch's arrival is written later than the arrival, and the line of a timed-out answer later than the
timeout."""


class Leaders(Fetches):
    """Handles the leader's lines."""

    def received_fetch(self, event: e.Event, what: e.Received, exchange: Exchange | None) -> None:
        """Handle a line: the leader records the sender's offset, and answers, parks or refuses the fetch."""
        b, leader, fetch = self.belief, event.node, what.message
        assert isinstance(fetch, e.Fetch)
        f = fetch.sender
        if exchange is None:
            self.fail("receive_fetch", {"leader": leader, "member": f}, ("it was sent",))
        elif exchange.sent_ms is None and self.order.has_log(f):
            self._of_silent(f, fetch, b.node(leader))
        b.requests[f] = leader, fetch
        turn = self.turns[leader] = Turn(what, event, exchange)
        node = b.node(leader)
        if leader not in b.voters:
            self.verdicts.outside["a fetch to a node that is no voter"] += 1
            return
        mine = node.log or Log()
        window = Window(b, [leader, f], commits=True)
        names = {"leader": window.slots[leader], "f": window.slots[f]}
        outcome = self.take(window, "receive_fetch", **names)
        says = {"leader": leader, "member": f}
        if outcome.after is None:
            refuse = self.take(window, "refuse_fetch", f=window.slots[f])
            if refuse.after is None:
                self.fail("receive_fetch", says, outcome.refused)
            else:
                self.verdicts.explained["refuse_fetch"] += 1
                turn.answers[f] = {"refused": True}
            b.requests.pop(f, None)
            return
        others = [g for g, parked in b.parked.items() if parked.leader == leader and g != f]
        completed = {g: self._completed(leader, g, "receive_fetch", names, f) for g in others}
        hwm = node.hwm
        self.adopt(window, outcome, leader)
        self._commit(window, outcome, mine)
        b.requests.pop(f, None)
        if node.hwm != hwm:
            turn.hwm, turn.hwm_before = node.hwm, hwm
        slot = window.slots[f]
        self._expect(turn, completed)
        if outcome.after["parked"][slot] is not None:
            b.parked[f] = Parked(leader, fetch.epoch, fetch.offset, node.hwm, exchange)
            self.verdicts.explained["receive_fetch: parked"] += 1
        else:
            turn.answers[f] = self._told(window, outcome, slot, fetch.offset)
            self.verdicts.explained["receive_fetch: answered"] += 1

    def _of_silent(self, f: int, fetch: e.Fetch, leader: Node) -> None:
        """Adopt a member's state from its fetch without a check, because its process writes no more lines."""
        self.guess("a fetch of a process that writes no more lines")
        b, node = self.belief, self.belief.node(f)
        if leader.log is not None:
            node.log = leader.log.copy()
            node.log.truncate(fetch.offset)
        node.epoch, node.leader = fetch.epoch, leader.id
        node.hwm = UNKNOWN if fetch.hwm is None else fetch.hwm
        node.peak = max(node.peak, node.hwm)
        b.responses.pop(f, None)

    def _completed(
        self, leader: int, g: int, action: str, names: dict[str, int], f: int | None
    ) -> dict[str, Any] | None:
        """The model's answer to the parked fetch of member ``g``, if ``action`` completes the fetch; otherwise None.

        Returns None also if the model refuses the action. ``f`` is the member besides the leader that takes part in
        the action, if there is one.
        """
        b = self.belief
        nodes = [leader, *([] if f is None else [f]), g]
        ends = [b.node(leader).log.end] if action == "append" and b.node(leader).log else []  # type: ignore[union-attr]
        window = Window(b, nodes, [*ends, *self._new_end], commits=True)
        chosen = {"leader": window.slots[leader]} | ({} if f is None else {"f": window.slots[f]})
        outcome = self.take(window, action, **chosen)
        slot = window.slots[g]
        if outcome.after is None or outcome.after["parked"][slot] is not None:
            return None
        return self._told(window, outcome, slot, b.parked[g].offset)

    _new_end: tuple[int, ...] = ()

    @staticmethod
    def _told(window: Window, outcome: Outcome, slot: int, offset: int) -> dict[str, Any]:
        """The answer to a fetch in the model's step, as facts to compare with a line."""
        assert outcome.after is not None
        sent = outcome.after["responses"][slot]
        diverging = None
        if sent["diverging"]:
            epoch = 0 if sent["end_epoch"] is None else window.epochs.value(sent["end_epoch"])
            diverging = epoch, window.offsets.value(sent["end"])
        return {
            "epoch": window.epochs.value(sent["epoch"]),
            "hwm": window.offsets.value(sent["hwm"]),
            "records": sent["record"] is not None,
            "diverging": diverging,
            "offset": offset,
        }

    def _expect(self, turn: Turn, completed: dict[int, dict[str, Any] | None]) -> None:
        """Require, in this turn, each answer in ``completed``; None means that the member's fetch stays parked."""
        for g, told in completed.items():
            if told is not None:
                turn.answers[g] = told
                turn.completed[g] = self.belief.parked.pop(g)

    def _commit(self, window: Window, outcome: Outcome, log: Log) -> None:
        assert outcome.after is not None
        self._is_committed(log, window.offsets.value(len(outcome.after["committed"])))

    def _is_committed(self, log: Log, end: int) -> None:
        """Note that the records of a log below the offset ``end`` are committed."""
        if end > self.belief.committed.end:
            self.belief.committed = log.copy()
            self.belief.committed.truncate(end)

    def appended(self, event: e.Event, what: e.Appended) -> None:
        """Handle a line: a leader appends, which completes fetches that wait for records.

        An append continues the previous append's turn if an answer or an HWM move of that turn has no line yet. Then
        the HWM moves once, from its value before the first append.
        """
        b, leader = self.belief, event.node
        node = b.node(leader)
        log = self.log_of(node, what.base, b.node(leader).epoch)
        if node.starts:
            self.explain("win: its first record", {"leader": leader}, {
                "base": (log.end, what.base), "epoch": (node.epoch, what.epoch), "leads": (True, node.leads),
            })  # fmt: skip
            node.starts = False
            log.append(what.end, what.epoch)
            self.turns[leader] = Turn(what, event)
            return
        turn = self.turns.get(leader)
        is_open = turn is not None and (bool(turn.answers) or turn.hwm is not None)
        before = log.end
        self._new_end = (what.end,)
        window = Window(b, [leader], [what.end], commits=True)
        outcome = self.take(window, "append", leader=window.slots[leader])
        if outcome.after is None:
            self.fail("append", {"leader": leader}, outcome.refused)
            log.append(what.end, what.epoch)
            self._new_end = ()
            return
        others = [g for g, parked in b.parked.items() if parked.leader == leader]
        completed = {g: self._completed(leader, g, "append", {}, None) for g in others}
        self._new_end = ()
        hwm = node.hwm
        self.adopt(window, outcome, leader)
        if turn is None or not is_open or not isinstance(turn.what, e.Appended):
            turn = self.turns[leader] = Turn(what, event)
        self._expect(turn, completed)
        log.append(what.end, what.epoch)
        self._commit(window, outcome, log)
        if node.hwm != hwm:
            turn.hwm, turn.hwm_before = node.hwm, hwm if turn.hwm is None else turn.hwm_before
        self.explain("append", {"leader": leader}, {
            "base": (before, what.base), "epoch": (node.epoch, what.epoch), "grows": (True, what.end > what.base),
        })  # fmt: skip

    def answered_fetch(self, event: e.Event, what: e.Answered, exchange: Exchange | None) -> None:
        """Handle a line: a leader answers a fetch.

        There are three kinds of answers: to a fetch that has just arrived, to a parked fetch that the turn completes,
        and to a parked fetch whose park timer fired.
        """
        b, leader, answer, fetch = self.belief, event.node, what.message, what.request
        assert isinstance(answer, e.FetchAnswer)
        if not isinstance(fetch, e.Fetch):
            self.fail("answer", {"leader": leader}, ("it answers a fetch",))
            return
        f, turn, node = fetch.sender, self.turns.get(leader), b.node(leader)
        says = {"leader": leader, "member": f}
        if exchange is None:
            self.fail("answer", says, ("it took the request",))
        told = turn.answers.get(f) if turn is not None else None
        if told is not None and turn is not None and (turn.exchange is exchange or f in turn.completed):
            del turn.answers[f]
            parked = turn.completed.pop(f, None)
            if parked is not None and f not in turn.seen and self.is_over(event, exchange):
                # The timer's thread was first, and the append's line was written before the timer's answer.
                self.guess("a park timer that ran out as its fetch was completed")
                b.parked[f] = parked
                self._timed_out(event, answer, exchange, says)
                return
            if parked is not None and f not in turn.seen:
                self.fail("complete_parked", says, ("the line that completes it stands before",))
            self._compare_answer(says, told, answer, node)
        elif f in b.parked and b.parked[f].leader == leader:
            self._timed_out(event, answer, exchange, says)
            return
        elif answer.error:
            self.verdicts.outside["a parked fetch of a leader that leads no more"] += 1
            return
        else:
            self.fail("answer", says, ("the fetch is parked, or has just come",))
        if not answer.error:
            source = None if node.log is None else node.log.copy()
            b.responses[f] = Response.of(answer, fetch.offset, source, exchange)

    def _compare_answer(
        self, says: dict[str, Any], told: dict[str, Any], answer: e.FetchAnswer, node: Node
    ) -> None:
        if told.get("refused"):
            leader = UNKNOWN if node.leader is None else node.leader
            self.explain("answer: refused", says, {
                "is an error": (True, answer.error != 0), "epoch": (node.epoch, answer.epoch),
                "leader": (leader if answer.leader != UNKNOWN else UNKNOWN, answer.leader),
            })  # fmt: skip
            return
        self.explain("answer", says, {"error": (0, answer.error), **self._fields(told, node.id, answer)})

    @staticmethod
    def _fields(told: dict[str, Any], leader: int, answer: e.FetchAnswer) -> Differences:
        return {
            "epoch": (told["epoch"], answer.epoch),
            "leader": (leader, answer.leader),
            "hwm": (told["hwm"], answer.hwm),
            "records": (told["records"], answer.size > 0),
            "diverging": (told["diverging"], answer.diverging),
        }

    def _timed_out(
        self, event: e.Event, answer: e.FetchAnswer, exchange: Exchange | None, says: dict[str, Any]
    ) -> None:
        b, leader, f = self.belief, event.node, says["member"]
        parked = b.parked[f]
        window = Window(b, [leader, f])
        outcome = self.take(window, "park_timer", leader=window.slots[leader], f=window.slots[f])
        if answer.error or outcome.after is None:
            self.fail("park_timer", says, outcome.refused, {"error": (0, answer.error)})
            b.parked.pop(f)
            return
        told = self._told(window, outcome, window.slots[f], parked.offset)
        over = self.is_over(event, exchange)
        found = self._fields(told, leader, answer)
        self.explain("park_timer", says, {**found, "its time is over": (True, over)})
        b.parked.pop(f)
        if exchange is not None and isinstance(exchange.request, e.Fetch):
            log = b.node(leader).log
            source = None if log is None else log.copy()
            b.responses[f] = Response.of(answer, exchange.request.offset, source, exchange, over)

    @staticmethod
    def is_over(event: e.Event, exchange: Exchange | None) -> bool:
        """True if a fetch waited at least the fraction EARLY of its maximum wait time, or if its wait is unknown."""
        waited = Leaders.waited(event, exchange)
        return waited is None or waited >= EARLY

    @staticmethod
    def waited(event: e.Event, exchange: Exchange | None) -> float | None:
        """How long a fetch waited, as a fraction of its maximum wait time, by the leader's clock; None if unknown."""
        if exchange is None or exchange.received_ms is None or not isinstance(exchange.request, e.Fetch):
            return None
        return (event.time_ms - exchange.received_ms) / max(1, exchange.request.wait_ms)

    def completing(self, event: e.Event, what: e.Completing) -> None:
        """Handle a line that completes a parked fetch, which the model must complete in the same turn."""
        turn = self.turns.get(event.node)
        says = {"leader": event.node, "member": what.sender}
        if turn is None or what.sender not in turn.completed:
            turn = self._drained(event, what.sender)
        if turn is None:
            self.fail("complete_parked", says, ("a step completes it",))
            return
        turn.seen.add(what.sender)
        self.explain("complete_parked", says, {"offset": (turn.answers[what.sender]["offset"], what.offset)})

    def _drained(self, event: e.Event, sender: int) -> Turn | None:
        """K25. Begin a turn that completes parked fetches without an append or an HWM move.

        Returns None if the rules forbid the turn, or if ``sender`` has no parked fetch.
        """
        b, leader = self.belief, event.node
        others = [g for g, parked in b.parked.items() if parked.leader == leader]
        window = Window(b, [leader, *[sender][: sender in others]])
        outcome = self.take(window, "drain_nothing", leader=window.slots[leader])
        if outcome.after is None or sender not in others:
            return None
        turn = self.turns[leader] = Turn(event.what, event)
        completed = {g: self._completed(leader, g, "drain_nothing", {}, None) for g in others}
        self._expect(turn, completed)
        self.verdicts.explained["drain_nothing"] += 1
        return turn

    # --- the HWM ------------------------------------------------------------------------------------------------

    def hwm(self, event: e.Event, what: e.Hwm) -> None:
        """Handle a line with a node's new HWM, which must be the one that the node's turn expects."""
        turn, node = self.turns.get(event.node), self.belief.node(event.node)
        if turn is not None and turn.pending:
            self.use_answer(turn, None, None)
        says = {"node": event.node}
        if turn is None or turn.hwm is None:
            self.fail("hwm", says, differences={"hwm": (node.hwm, what.offset)})
            self._believe_hwm(node, what)
            return
        differences: Differences = {
            "hwm": (turn.hwm, what.offset),
            "leads": (node.leads, what.leads),
        }
        if what.before is not None:
            differences["before"] = (turn.hwm_before, what.before)
        if what.ends is not None:
            assert node.log is not None
            ends = {
                v: node.log.end if v == node.id else node.fetched.get(v, UNKNOWN) for v in self.belief.voters
            }
            differences["ends"] = (ends, dict(what.ends))
        self.explain("hwm: leader" if what.leads else "hwm: follower", says, differences)
        if turn.hwm != what.offset:
            self._believe_hwm(node, what)
        if not what.final:
            self.double.add(event.node)
            turn.seen_hwm = True
            return
        if event.node in self.double and not turn.seen_hwm:
            self.fail("hwm", says, ("the state's own line stands before it",))
        turn.hwm, turn.seen_hwm = None, False

    def _believe_hwm(self, node: Node, what: e.Hwm) -> None:
        node.hwm, node.peak = what.offset, max(node.peak, what.offset)
        if node.leads and node.log is not None:
            self._is_committed(node.log, what.offset)
