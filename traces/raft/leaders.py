"""What leaders do, as lines tell it: they take fetches, answer or park them, append, and move the HWM."""

from __future__ import annotations

from typing import Any

from highwater.traces.raft import events as e
from highwater.traces.raft.belief import UNKNOWN, Log, Node, Parked, Response
from highwater.traces.raft.explain import Differences, Turn
from highwater.traces.raft.fetches import Fetches
from highwater.traces.raft.judge import Outcome
from highwater.traces.raft.order import Exchange
from highwater.traces.raft.window import Window

EARLY, LATE = 0.9, 1.1
"""A timer counts as run out after so much of its time: the line that tells when a fetch came is written later. Up to
the other it can be that it ran out, and its answer is not written yet."""


class Leaders(Fetches):
    """The part that is about leaders."""

    def received_fetch(self, event: e.Event, what: e.Received, exchange: Exchange | None) -> None:
        """The leader notes how far its sender is, and answers or parks the fetch; or it cannot use it."""
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
            self.outside["a fetch to a node that is no voter"] += 1
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
                self.explained["refuse_fetch"] += 1
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
            self.explained["receive_fetch: parked"] += 1
        else:
            turn.answers[f] = self._told(window, outcome, slot, fetch.offset)
            self.explained["receive_fetch: answered"] += 1

    def _of_silent(self, f: int, fetch: e.Fetch, leader: Node) -> None:
        """A member whose process writes no more lines, and fetches: what it says of itself is taken as it is."""
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
        """What a step answers to another member whose fetch is parked; None where it stays parked."""
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
        """The answer to a fetch in the model's step."""
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
        """Fetches that a step completes have to be answered in this turn."""
        for g, told in completed.items():
            if told is not None:
                turn.answers[g] = told
                turn.completed[g] = self.belief.parked.pop(g)

    def _commit(self, window: Window, outcome: Outcome, log: Log) -> None:
        assert outcome.after is not None
        end = window.offsets.value(len(outcome.after["committed"]))
        if end > self.belief.committed.end:
            committed = log.copy()
            committed.truncate(end)
            self.belief.committed = committed

    def appended(self, event: e.Event, what: e.Appended) -> None:
        """A leader appends; fetches that wait for records are completed. Appends in a row are one."""
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
        in_a_row = turn is not None and isinstance(turn.what, e.Appended) and bool(turn.answers)
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
        if in_a_row:
            assert turn is not None
        else:
            turn = self.turns[leader] = Turn(what, event)
        self._expect(turn, completed)
        log.append(what.end, what.epoch)
        self._commit(window, outcome, log)
        if node.hwm != hwm:
            turn.hwm, turn.hwm_before = node.hwm, hwm
        self.explain("append", {"leader": leader}, {
            "base": (before, what.base), "epoch": (node.epoch, what.epoch), "grows": (True, what.end > what.base),
        })  # fmt: skip

    def answered_fetch(self, event: e.Event, what: e.Answered, exchange: Exchange | None) -> None:
        """A leader answers: at once, because it completes a parked fetch, or because the time of that is over."""
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
                # The timer's own thread was first, and the line of the append was written before its answer.
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
            self.outside["a parked fetch of a leader that leads no more"] += 1
            return
        else:
            self.fail("answer", says, ("the fetch is parked, or has just come",))
        if not answer.error:
            self._on_its_way(answer, fetch, node, exchange)

    def _on_its_way(
        self,
        answer: e.FetchAnswer,
        fetch: e.Fetch,
        node: Node,
        exchange: Exchange | None,
        timed_out: bool = False,
    ) -> None:
        source = None if node.log is None else node.log.copy()
        self.belief.responses[fetch.sender] = Response(
            answer.epoch,
            answer.size > 0,
            answer.hwm,
            answer.diverging,
            fetch.offset,
            source,
            timed_out,
            exchange,
        )

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
            self._on_its_way(answer, exchange.request, b.node(leader), exchange, over)

    @staticmethod
    def is_over(event: e.Event, exchange: Exchange | None) -> bool:
        """Whether a fetch has waited for as long as it may, by the clock of its leader."""
        waited = Leaders.waited(event, exchange)
        return waited is None or waited >= EARLY

    @staticmethod
    def waited(event: e.Event, exchange: Exchange | None) -> float | None:
        """For how much of its time a fetch has waited, by the clock of its leader: 1 is all. None: not known."""
        if exchange is None or exchange.received_ms is None or not isinstance(exchange.request, e.Fetch):
            return None
        return (event.time_ms - exchange.received_ms) / max(1, exchange.request.wait_ms)

    def completing(self, event: e.Event, what: e.Completing) -> None:
        """A parked fetch is completed: the turn has to say so."""
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
        """K25. Nothing was appended and the HWM did not move, and parked fetches are completed all the same."""
        b, leader = self.belief, event.node
        others = [g for g, parked in b.parked.items() if parked.leader == leader]
        window = Window(b, [leader, *[sender][: sender in others]])
        outcome = self.take(window, "drain_nothing", leader=window.slots[leader])
        if outcome.after is None or sender not in others:
            return None
        turn = self.turns[leader] = Turn(event.what, event)
        completed = {g: self._completed(leader, g, "drain_nothing", {}, None) for g in others}
        self._expect(turn, completed)
        self.explained["drain_nothing"] += 1
        return turn

    # --- the HWM ------------------------------------------------------------------------------------------------

    def hwm(self, event: e.Event, what: e.Hwm) -> None:
        """The HWM has moved, as this turn says."""
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
        """Go on from what was recorded."""
        node.hwm, node.peak = what.offset, max(node.peak, what.offset)
        if node.leads and node.log is not None and what.offset > self.belief.committed.end:
            committed = node.log.copy()
            committed.truncate(what.offset)
            self.belief.committed = committed
