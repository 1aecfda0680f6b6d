"""Fetches, their answers, appends and the HWM, as lines tell them."""

from __future__ import annotations

from dataclasses import replace

from highwater.traces.raft import events as e
from highwater.traces.raft.belief import Log, Response
from highwater.traces.raft.explain import Differences, Explainer, Turn
from highwater.traces.raft.judge import Outcome
from highwater.traces.raft.order import Exchange
from highwater.traces.raft.window import Window


class Fetches(Explainer):
    """The part that is about fetches."""

    # --- the member that asks -----------------------------------------------------------------------------------

    def sent_fetch(self, event: e.Event, what: e.Sent, fetch: e.Fetch) -> None:
        """It asks from its LEO, with the HWM that it knows."""
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
            # The model's members fetch from a leader that they know; one that looks for it says the same of itself.
            self.guess("a fetch to look for a leader")
            node.leader, node.ballot = next(v for v in b.voters if v != f), "none"
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
        """The answer has come; what it does is told by the lines behind it."""
        b, f = self.belief, event.node
        if what.failed:
            self.outside["an answer of the own client: the other could not be reached"] += 1
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
            self.outside["an answer that is an error: it tells an epoch and a leader only"] += 1
            self.drop_response(f, exchange)
            return
        has_log = self.order.has_log(what.source)
        if (
            f not in b.responses
            and exchange is not None
            and isinstance(exchange.request, e.Fetch)
            and not has_log
        ):
            b.responses[f] = Response(
                answer.epoch,
                answer.size > 0,
                answer.hwm,
                answer.diverging,
                exchange.request.offset,
                None,
                exchange=exchange,
            )
        if f not in b.responses and f in self.late and self.late[f][1] != what.source:
            # It looks for a leader in several places at a time.
            b.responses[f] = self.late.pop(f)[0]
        self.turns[f] = Turn(what, event, exchange, pending=True, hwm_before=b.node(f).hwm)

    def drop_response(self, f: int, exchange: Exchange | None) -> None:
        """An answer is not used; one to another fetch of the same member is still under way."""
        response = self.belief.responses.get(f)
        if response is not None and response.exchange is exchange:
            del self.belief.responses[f]

    def use_answer(self, turn: Turn, end: int | None, epoch: int | None) -> None:
        """Hold what a member made of an answer against the model: its LEO where it appended, and its HWM."""
        b, f = self.belief, turn.event.node
        node, response = b.node(f), b.responses.get(f)
        turn.pending = False
        if response is None:
            # One that it has given up it would not use any more.
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
            # Every answer with records ends in a line that says how far they go: the model would have taken them.
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
        """The model's answer has one record: its epoch is that of the stretch."""
        response = self.belief.responses[f]
        if epoch is not None:
            response.source = Log([(0, epoch)], response.offset + 1)
        return self.take(window, "take_answer", f=window.slots[f])

    def _stretches(self, response: Response, log: Log, end: int | None) -> list[tuple[int | None, int]]:
        """What an answer brought, in stretches of one epoch that the HWM does not part; one of nothing at least."""
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
