"""Follows all lines: which of them begin a turn, which belong to one, and what a turn must not leave untold."""

from __future__ import annotations

from highwater.traces.raft import events as e
from highwater.traces.raft.belief import Parked
from highwater.traces.raft.elections import Elections
from highwater.traces.raft.explain import Turn
from highwater.traces.raft.leaders import EARLY, LATE
from highwater.traces.raft.order import Exchange


class Follower(Elections):
    """Takes event after event; ``finish`` when there are no more."""

    def follow(self, event: e.Event, exchange: Exchange | None) -> None:
        """The next line."""
        self.event = event
        what = event.what
        if isinstance(what, e.Sent | e.Received | e.GotAnswer | e.Started) or (
            isinstance(what, e.Appended) and not self._is_row(event)
        ):
            self.end_turn(event.node, died=isinstance(what, e.Started))
            self.event = event
        if isinstance(what, e.Sent):
            self._sent(event, what)
        elif isinstance(what, e.Received):
            self._received(event, what, exchange)
        elif isinstance(what, e.Answered):
            self._answered(event, what, exchange)
        elif isinstance(what, e.GotAnswer):
            self._got_answer(event, what, exchange)
        elif isinstance(what, e.Ignored):
            self._ignored(event, what)
        elif isinstance(what, e.Judged):
            self.judged(event, what)
        elif isinstance(what, e.Role):
            self.role(event, what)
        elif isinstance(what, e.Started):
            self.started(event, what)
        else:
            self._within_turn(event)

    def _is_row(self, event: e.Event) -> bool:
        turn = self.turns.get(event.node)
        return turn is not None and isinstance(turn.what, e.Appended)

    def _within_turn(self, event: e.Event) -> None:
        what, turn = event.what, self.turns.get(event.node)
        if isinstance(what, e.Appended):
            self.appended(event, what)
        elif isinstance(what, e.Hwm):
            self.hwm(event, what)
        elif isinstance(what, e.Completing):
            self.completing(event, what)
        elif isinstance(what, e.FollowerEnd | e.Truncated):
            if turn is None or not turn.pending:
                self.fail("take_answer", {"member": event.node}, ("an answer has just come",))
            else:
                self.use_answer(turn, what.end, what.epoch if isinstance(what, e.FollowerEnd) else None)

    def end_turn(self, node: int, died: bool = False) -> None:
        """What the model says must follow, and did not."""
        turn = self.turns.pop(node, None)
        if turn is None:
            return
        if turn.pending:
            self.event = turn.event
            if isinstance(turn.what, e.GotAnswer) and isinstance(turn.what.message, e.VoteAnswer):
                self.use_vote(turn)
            else:
                self.use_answer(turn, None, None)
        self._leave_to_timers(node, turn)
        untold = [f"an answer to member {f}" for f in turn.answers]
        if turn.hwm is not None:
            untold.append(f"its HWM moves to {turn.hwm}")
        if turn.roles:
            untold.append("its epoch or its vote changes")
        if not untold:
            return
        if died:
            self.guess("lines that its process did not write any more")
            return
        self.fail("what must follow", {"node": node}, untold, event=turn.event)
        self._believe_parked(node, turn)

    def _leave_to_timers(self, node: int, turn: Turn) -> None:
        """A fetch whose time was just over when a step completed it: the timer can have been first."""
        for f in turn.completed.keys() & turn.answers.keys() - turn.seen:
            waited = self.waited(turn.event, turn.completed[f].exchange)
            if waited is not None and EARLY <= waited <= LATE:
                self.guess("a park timer that ran out as its fetch was completed")
                self.belief.parked[f] = turn.completed.pop(f)
                del turn.answers[f]

    def _believe_parked(self, node: int, turn: Turn) -> None:
        """Go on from what was recorded: who was not answered waits."""
        for f in turn.answers:
            if f in turn.completed:
                self.belief.parked[f] = turn.completed[f]
            elif isinstance(turn.what, e.Received) and isinstance(turn.what.message, e.Fetch):
                fetch, hwm = turn.what.message, self.belief.node(node).hwm
                self.belief.parked[f] = Parked(node, fetch.epoch, fetch.offset, hwm, turn.exchange)

    def finish(self) -> None:
        """The logs end; what a node was in the middle of is not told."""
        for node in list(self.turns):
            self.end_turn(node, died=True)

    # --- by kinds of messages -----------------------------------------------------------------------------------

    def _sent(self, event: e.Event, what: e.Sent) -> None:
        message = what.message
        if isinstance(message, e.Fetch):
            self.sent_fetch(event, what, message)
        elif isinstance(message, e.Vote):
            self.sent_vote(event, what, message)
        elif isinstance(message, e.Begin):
            node = self.belief.node(event.node)
            self.explain("begin: who leads tells", {"leader": event.node}, {
                "leads": (True, node.leads), "epoch": (node.epoch, message.epoch),
                "leader": (event.node, message.sender), "voter": (what.to, message.voter),
            })  # fmt: skip
        else:
            self._other(message)

    def _received(self, event: e.Event, what: e.Received, exchange: Exchange | None) -> None:
        message = what.message
        if isinstance(message, e.Fetch):
            self.received_fetch(event, what, exchange)
        elif isinstance(message, e.Vote):
            self.received_vote(event, what, exchange)
        elif isinstance(message, e.Begin):
            sent = {"was sent": (True, exchange is not None), "voter": (event.node, message.voter)}
            self.explain("begin: a member hears it", {"member": event.node}, sent)
        else:
            self._other(message)

    def _answered(self, event: e.Event, what: e.Answered, exchange: Exchange | None) -> None:
        message = what.message
        if isinstance(message, e.FetchAnswer):
            self.answered_fetch(event, what, exchange)
        elif isinstance(message, e.VoteAnswer):
            self.answered_vote(event, what, exchange)
        elif isinstance(message, e.BeginAnswer):
            node = self.belief.node(event.node)
            leader = -1 if node.leader is None else node.leader
            said = {"epoch": (node.epoch, message.epoch), "leader": (leader, message.leader)}
            self.explain("begin: answer", {"member": event.node}, said)
        else:
            self._other(message)

    def _got_answer(self, event: e.Event, what: e.GotAnswer, exchange: Exchange | None) -> None:
        message = what.message
        if exchange is None and event.node in self.begun:
            self.fail("answer", {"node": event.node, "of": what.source}, ("it sent the request",))
        if isinstance(message, e.FetchAnswer):
            self.got_fetch_answer(event, what, exchange)
        elif isinstance(message, e.VoteAnswer):
            self.got_vote_answer(event, what, exchange)
        elif isinstance(message, e.BeginAnswer):
            if what.failed or not self.order.has_log(what.source):
                self.outside["an answer of the own client: the other could not be reached"] += what.failed
            else:
                said = {"answer": (exchange and exchange.answer, message)}
                self.explain("begin: answer as it was sent", {"leader": event.node}, said)
        else:
            self._other(message)
            if (
                isinstance(message, e.Other)
                and message.api == "UpdateRaftVoterResponse"
                and not message.error
            ):
                # To Kafka this is contact with the leader, as an answer to a fetch is.
                self.belief.node(event.node).heard = True

    def _ignored(self, event: e.Event, what: e.Ignored) -> None:
        turn = self.turns.get(event.node)
        came = (
            turn.what.correlation
            if turn is not None and isinstance(turn.what, e.GotAnswer)
            else what.correlation
        )
        answer = {"answer": (came, what.correlation)}
        self.explain("an answer that nobody waits for", {"node": event.node}, answer)
        if turn is not None and turn.pending and isinstance(turn.what, e.GotAnswer):
            turn.pending = False
            if isinstance(turn.what.message, e.VoteAnswer):
                self.belief.vote_responses.pop((event.node, turn.what.source), None)
            else:
                self.drop_response(event.node, turn.exchange)

    def _other(self, message: e.Message) -> None:
        api = message.api if isinstance(message, e.Other) else type(message).__name__
        self.outside[f"a message that the model has not: {api}"] += 1
