"""Votes, roles and starts of processes in raft logs, and the replay of all lines.

``Follower`` determines which lines belong to a turn (the lines of one step), and which of its lines are missing.
"""

from __future__ import annotations

from typing import Any

from highwater.traces.messages import raft_events as e
from highwater.traces.messages.quorum import (
    UNKNOWN,
    Log,
    Node,
    Outcome,
    Parked,
    Window,
)
from highwater.traces.messages.quorum_steps import EARLY, LATE, Leaders, Turn
from highwater.traces.messages.raft_events import Exchange

# --- elections -------------------------------------------------------------------------------------------

_BALLOTS = {"Prospective": "pre_vote", "Candidate": "vote"}
NO_STEP = "as it was"


class Elections(Leaders):
    """Handles the lines about elections. Vote requests include pre-vote requests."""

    def _vote_step(self, action: str, nodes: list[int], **members: int) -> tuple[Window, Outcome]:
        """Take an election step in the model. Returns the window before the step, and the outcome.

        ``members`` are the action's parameters by name. An action that begins a new epoch raises the epoch's rank by
        one.
        """
        window = Window(self.belief, nodes, fetches=False, votes=True)
        return window, self.take(window, action, **{name: window.slots[n] for name, n in members.items()})

    # --- votes --------------------------------------------------------------------------------------------------

    def sent_vote(self, event: e.Event, what: e.Sent, vote: e.Vote) -> None:
        """Handle a line: a voter sends a vote request."""
        b, c, v = self.belief, event.node, what.to
        self.log_of(b.node(c), vote.offset, vote.last_epoch)
        if (c, v) in b.vote_requests or (c, v) in b.vote_responses:
            self.guess("a vote request, or its answer, that was lost")
            b.vote_requests.pop((c, v), None)
            b.vote_responses.pop((c, v), None)
        window, outcome = self._vote_step("ask", [c, v], c=c, v=v)
        says = {"voter": c, "asks": v}
        if outcome.after is None:
            self.fail("ask", says, outcome.refused)
        else:
            sent = outcome.after["vote_requests"][window.slots[c]][window.slots[v]]
            self.explain("ask", says, {
                "epoch": (window.epochs.value(sent["epoch"]), vote.epoch),
                "pre": (sent["pre"], vote.pre),
                "last_epoch": (window.epochs.value(sent["last_epoch"] or 0), vote.last_epoch),
                "offset": (window.offsets.value(sent["offset"]), vote.offset),
                "voter": (v, vote.voter), "sender": (c, vote.sender),
            })  # fmt: skip
        b.vote_requests[c, v] = vote

    def received_vote(self, event: e.Event, what: e.Received, exchange: Exchange | None) -> None:
        """Handle a line: a voter receives a vote request. Lines with the verdict, epoch and vote must follow."""
        b, v, vote = self.belief, event.node, what.message
        assert isinstance(vote, e.Vote)
        c = vote.sender
        says = {"voter": v, "asked by": c}
        if exchange is None:
            self.fail("answer_vote", says, ("it was sent",))
        if vote.voter != v:
            self.fail("answer_vote", says, differences={"voter": (v, vote.voter)})
        turn = self.turns[v] = Turn(what, event, exchange)
        b.vote_requests[c, v] = vote
        node = b.node(v)
        epoch, voted = node.epoch, node.voted
        window, outcome = self._vote_step("answer_vote", [v, c], v=v, c=c)
        b.vote_requests.pop((c, v), None)
        if outcome.after is None:
            self.fail("answer_vote", says, outcome.refused)
            return
        given = outcome.after["vote_responses"][window.slots[c]][window.slots[v]]
        self.adopt(window, outcome, v)
        if not node.leads:
            b.drop_parked(v)
        turn.answers[c] = {
            "granted": given["granted"], "epoch": window.epochs.value(given["epoch"]), "stale": vote.epoch < epoch
        }  # fmt: skip
        # One line reports the new epoch, a second one the vote.
        is_later = node.epoch != epoch
        has_voted = node.voted is not None and (is_later or node.voted != voted)
        turn.roles = [*([None] if is_later else []), *([node.voted] if has_voted else [])]
        self.verdicts.explained["answer_vote"] += 1

    def judged(self, event: e.Event, what: e.Judged) -> None:
        """Handle a line with the voter's verdict on a vote request."""
        turn = self.turns.get(event.node)
        told = turn.answers.get(what.message.sender) if turn is not None else None
        if told is None or "granted" not in told:
            self.fail("answer_vote", {"voter": event.node}, ("a request has just come",))
            return
        asked = turn.what.message if turn is not None and isinstance(turn.what, e.Received) else None
        self.explain("answer_vote: verdict", {"voter": event.node}, {
            "granted": (told["granted"], what.granted), "request": (asked, what.message),
        })  # fmt: skip

    def answered_vote(self, event: e.Event, what: e.Answered, exchange: Exchange | None) -> None:
        """Handle a line: the voter sends its answer to a vote request."""
        b, v, answer, vote = self.belief, event.node, what.message, what.request
        assert isinstance(answer, e.VoteAnswer)
        if not isinstance(vote, e.Vote):
            self.fail("answer_vote", {"voter": v}, ("it answers a vote request",))
            return
        turn, node = self.turns.get(v), b.node(v)
        told = turn.answers.get(vote.sender, {}) if turn is not None else {}
        says = {"voter": v, "asked by": vote.sender}
        if turn is not None and "granted" in told:
            del turn.answers[vote.sender]
        if exchange is None or "granted" not in told:
            self.fail("answer_vote", says, ("a request has just come",))
            return
        leader = UNKNOWN if node.leader is None else node.leader
        self.explain("answer_vote: answer", says, {
            "granted": (told["granted"], answer.granted), "epoch": (told["epoch"], answer.epoch),
            "leader": (leader, answer.leader), "is an error": (told["stale"], answer.error != 0),
        })  # fmt: skip
        b.vote_responses[vote.sender, v] = vote.epoch, vote.pre, answer.epoch, answer.granted

    def got_vote_answer(self, event: e.Event, what: e.GotAnswer, exchange: Exchange | None) -> None:
        """Handle a line: an answer to a vote request arrives.

        If the next line does not report that the node ignores the answer, the next role line shows the effect.
        """
        b, c, v = self.belief, event.node, what.source
        answer = what.message
        assert isinstance(answer, e.VoteAnswer)
        if what.failed:
            self.verdicts.outside["an answer of the own client: the other could not be reached"] += 1
            b.vote_requests.pop((c, v), None)
            return
        if self.order.has_log(v):
            self.explain("take_vote: as it was sent", {"voter": c}, {
                "answer": (exchange and exchange.answer, answer),
            })  # fmt: skip
        if exchange is not None and isinstance(exchange.request, e.Vote):
            vote = exchange.request
            b.vote_responses[c, v] = vote.epoch, vote.pre, max(answer.epoch, 0), answer.granted
        self.turns[c] = Turn(what, event, exchange, pending=True)

    def use_vote(self, turn: Turn) -> None:
        """Take a received vote answer in the model, and note the role lines that must follow."""
        assert isinstance(turn.what, e.GotAnswer)
        b, c, v = self.belief, turn.event.node, turn.what.source
        turn.pending = False
        answer = turn.what.message
        node = b.node(c)
        if isinstance(answer, e.VoteAnswer) and answer.epoch > node.epoch and answer.leader >= 0:
            # The answer's epoch has a leader already, so the node's next line shows that it learns of the leader.
            b.vote_responses.pop((c, v), None)
            self.verdicts.explained["take_vote: of a later epoch"] += 1
            return
        window, outcome = self._vote_step("take_vote", [c, v], c=c, v=v)
        b.vote_responses.pop((c, v), None)
        if outcome.after is None:
            self.fail("take_vote", {"voter": c, "of": v}, outcome.refused)
            return
        epoch = node.epoch
        self.adopt(window, outcome, c)
        turn.roles = [None] if node.epoch != epoch else []
        self.verdicts.explained["take_vote"] += 1

    # --- roles --------------------------------------------------------------------------------------------------

    def role(self, event: e.Event, what: e.Role) -> None:
        """Handle a line with a node's role: find the step that leads to this role, and compare the role's fields."""
        n = event.node
        node, turn = self.belief.node(n), self.turns.get(n)
        if what.first:
            self._start(node, what)
            return
        if turn is not None and turn.pending and isinstance(turn.what, e.GotAnswer):
            comes_of_it = what.epoch > node.epoch or node.leader is None
            if isinstance(turn.what.message, e.VoteAnswer):
                self.use_vote(turn)
            elif not comes_of_it or what.name not in ("Follower", "Unattached"):
                self.use_answer(turn, None, None)
        in_vote = (
            turn is not None and isinstance(turn.what, e.Received) and isinstance(turn.what.message, e.Vote)
        )
        if turn is not None and turn.roles and (in_vote or what.epoch == node.epoch) and what.name in (
            "Unattached", "Prospective"
        ):  # fmt: skip
            self._within(node, what, turn)
            return
        action, window, outcome = self._transition(node, what)
        if outcome is None:
            self.verdicts.explained[action] += 1
        elif outcome.after is None:
            self.fail(action, {"node": n, "to": what.name}, outcome.refused)
            self._believe(node, what)
            return
        else:
            assert window is not None
            self._take_over(node, what, window, outcome, action)
        self._compare_role(action, node, what)

    def _within(self, node: Node, what: e.Role, turn: Turn) -> None:
        """Compare a role line after a vote request with the model.

        The first such line shows the new epoch, and the second the vote.
        """
        voted, node.voted = node.voted, turn.roles.pop(0)
        if what.voted == voted:
            turn.roles.clear()
        self._compare_role("answer_vote: role", node, what)
        node.voted = voted

    def _transition(self, node: Node, what: e.Role) -> tuple[str, Window | None, Outcome | None]:
        b, n = self.belief, node.id
        if what.name == "Prospective":
            return "stand", *self._vote_step("stand", [n], c=n)
        if what.name == "Candidate":
            return "win_pre_votes", *self._vote_step("win_pre_votes", [n], c=n)
        if what.name == "Leader":
            log = self.log_of(node, what.start or 0, node.epoch)
            node.starts = True
            window = Window(b, [n], [log.end + 1], [node.epoch], commits=True, fetches=False)
            return "win", window, self.take(window, "win", c=window.slots[n])
        if what.name == "Resigned":
            self.verdicts.outside["a leader that resigns"] += 1
            b.drop_parked(n)
            node.leader, node.fetched = None, {}
            return "resign (no step of the model)", None, None
        same = what.epoch == node.epoch
        if node.ballot == "pre_vote" and same and what.leader == node.leader:
            return "give_up", *self._vote_step("give_up", [n], c=n)
        if what.name == "Follower":
            if same and what.leader == node.leader:
                return NO_STEP, None, None
            return "learn", *self._learn(node, what)
        if what.name == "Unattached":
            others = [v for v in b.voters if v != n and b.node(v).epoch >= what.epoch]
            if not others and not all(self.order.has_log(v) for v in b.voters):
                self.guess("an epoch of a node without a log here")
                absent = next(v for v in b.voters if not self.order.has_log(v))
                b.node(absent).epoch = what.epoch
                others = [absent]
            window = Window(b, [n, *others[:1]], (), [what.epoch], fetches=False)
            place = window.epochs.rank(what.epoch)
            return "hear", window, self.take(window, "hear", m=window.slots[n], epoch=place)
        return f"become {what.name}", None, Outcome(None, ("it is one of the roles that are known",))

    def _learn(self, node: Node, what: e.Role) -> tuple[Window, Outcome]:
        b = self.belief
        leader = what.leader
        if leader is not None and what.epoch not in b.elected and not self.order.has_log(leader):
            self.guess("an election of a node without a log here")
            b.elected[what.epoch] = leader
        window = Window(
            b, [node.id, *([leader] if leader in b.voters else [])], (), [what.epoch], fetches=False
        )
        return window, self.take(
            window, "learn", m=window.slots[node.id], epoch=window.epochs.rank(what.epoch)
        )

    def _take_over(self, node: Node, what: e.Role, window: Window, outcome: Outcome, action: str) -> None:
        self.adopt(window, outcome, node.id)
        if action == "win":
            self.belief.elected[node.epoch] = node.id
        if not node.leads:
            self.belief.drop_parked(node.id)
        self.verdicts.explained[action] += 1

    def _compare_role(self, action: str, node: Node, what: e.Role) -> None:
        differences: dict[str, tuple[Any, Any]] = {
            "epoch": (node.epoch, what.epoch),
            "ballot": (node.ballot, _BALLOTS.get(what.name, "none")),
        }
        if what.name in ("Follower", "Unattached", "Prospective"):
            differences["leader"] = (node.leader, what.leader)
            differences["voted"] = (node.voted, what.voted)
        if what.name == "Leader":
            differences["leads"] = (True, node.leads)
            assert node.log is not None
            differences["epoch start"] = (node.log.end, what.start)
        if what.name != "Resigned":
            differences["hwm"] = (node.hwm, UNKNOWN if what.hwm is None else what.hwm)
        if what.granted is not None:
            differences["granted"] = (sorted(node.granted), sorted(what.granted))
        found = {name: pair for name, pair in differences.items() if pair[0] != pair[1]}
        if found:
            self.fail(action, {"node": node.id, "to": what.name}, differences=found)
            self._believe(node, what)

    def _believe(self, node: Node, what: e.Role) -> None:
        """Adopt the recorded role as the node's state."""
        node.epoch, node.leader, node.voted = what.epoch, what.leader, what.voted
        node.ballot = _BALLOTS.get(what.name, "none")
        node.granted = what.granted or frozenset()
        node.hwm = UNKNOWN if what.hwm is None else what.hwm
        node.peak = max(node.peak, node.hwm)
        if what.name == "Leader":
            node.leader = node.voted = node.id
            node.starts = True
            self.belief.elected.setdefault(what.epoch, node.id)
        if what.name == "Candidate":
            node.voted = node.id

    # --- processes ----------------------------------------------------------------------------------------------

    def started(self, event: e.Event, what: e.Started) -> None:
        """Handle the start of a process. Its disk has the log, and perhaps the records of the last fetch answer."""
        b, n = self.belief, event.node
        self.turns.pop(n, None)
        self.begun.add(n)
        if n not in b.nodes:
            b.node(n)
            return
        node = b.node(n)
        response = b.responses.get(n)
        if response is not None and response.records and response.source is not None:
            node.maybe_more = response.source.end, response.epoch
        window = Window(b, [n], votes=False)
        outcome = self.take(window, "restart", m=window.slots[n])
        if outcome.after is None:
            self.fail("restart", {"node": n}, outcome.refused)
            return
        self.adopt(window, outcome, n)
        self.verdicts.explained["restart"] += 1
        b.drop_parked(n)
        for under_way in (b.requests, b.responses, b.parked):
            under_way.pop(n, None)
        for votes in (b.vote_requests, b.vote_responses):
            for pair in [p for p in votes if p[0] == n]:
                del votes[pair]

    def _start(self, node: Node, what: e.Role) -> None:
        """Handle a process's first role line, which has the role in its quorum-state file."""
        if node.epoch == 0 and node.log is None and node.leader is None and node.voted is None:
            if what.epoch or what.voted is not None or what.leader is not None:
                self.guess("the state at the beginning of the recording")
            self._believe(node, what)
            if what.name == "Resigned":
                node.voted, node.leader = node.id, None
                self.belief.elected.setdefault(what.epoch, node.id)
            if what.epoch == 0 and what.voted is None:
                node.log = Log() if what.leader is None else None
            self.verdicts.explained["a process begins"] += 1
            return
        if what.name == "Resigned":
            node.leader = None
        self.verdicts.explained["restart: role"] += 1
        self._compare_role("restart", node, what)


# --- follow ----------------------------------------------------------------------------------------------


class Follower(Elections):
    """Replays the raft logs of a quorum. Pass each event to ``follow``, and call ``finish`` at the end."""

    def follow(self, event: e.Event, exchange: Exchange | None) -> None:
        """Process the next line of a log."""
        self.event = event
        what = event.what
        if isinstance(what, e.Sent | e.Received | e.GotAnswer | e.Started) or (
            isinstance(what, e.Appended) and not self._is_row(event)
        ):
            self.end_turn(event.node, died=isinstance(what, e.Started))
            self.event = event
        match what:
            case e.Sent() | e.Received() | e.Answered() | e.GotAnswer():
                self._message(event, what, exchange)
            case e.Ignored():
                self._ignored(event, what)
            case e.Judged():
                self.judged(event, what)
            case e.Role():
                self.role(event, what)
            case e.Started():
                self.started(event, what)
            case e.Appended():
                self.appended(event, what)
            case e.Hwm():
                self.hwm(event, what)
            case e.Completing():
                self.completing(event, what)
            case e.FollowerEnd() | e.Truncated():
                turn = self.turns.get(event.node)
                if turn is None or not turn.pending:
                    self.fail("take_answer", {"member": event.node}, ("an answer has just come",))
                else:
                    self.use_answer(turn, what.end, what.epoch if isinstance(what, e.FollowerEnd) else None)

    def _is_row(self, event: e.Event) -> bool:
        turn = self.turns.get(event.node)
        return turn is not None and isinstance(turn.what, e.Appended)

    def end_turn(self, node: int, died: bool = False) -> None:
        """End a node's turn, and report effects that no line shows. If the node ``died``, they count as guessed."""
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
        """Park completed fetches again if the park timer may have answered them first."""
        for f in turn.completed.keys() & turn.answers.keys() - turn.seen:
            waited = self.waited(turn.event, turn.completed[f].exchange)
            if waited is not None and EARLY <= waited <= LATE:
                self.guess("a park timer that ran out as its fetch was completed")
                self.belief.parked[f] = turn.completed.pop(f)
                del turn.answers[f]

    def _believe_parked(self, node: int, turn: Turn) -> None:
        """Adapt the belief if the turn lacks answers to fetches: each of these fetches counts as parked."""
        for f in turn.answers:
            if f in turn.completed:
                self.belief.parked[f] = turn.completed[f]
            elif isinstance(turn.what, e.Received) and isinstance(turn.what.message, e.Fetch):
                fetch, hwm = turn.what.message, self.belief.node(node).hwm
                self.belief.parked[f] = Parked(node, fetch.epoch, fetch.offset, hwm, turn.exchange)

    def finish(self) -> None:
        """End the logs. Missing effects of unfinished turns count as guessed."""
        for node in list(self.turns):
            self.end_turn(node, died=True)

    # --- by kinds of messages -----------------------------------------------------------------------------------

    def _message(
        self, event: e.Event, what: e.Sent | e.Received | e.Answered | e.GotAnswer, exchange: Exchange | None
    ) -> None:
        if isinstance(what, e.GotAnswer) and exchange is None and event.node in self.begun:
            self.fail("answer", {"node": event.node, "of": what.source}, ("it sent the request",))
        match what, what.message:
            case e.Sent(), e.Fetch() as fetch:
                self.sent_fetch(event, what, fetch)
            case e.Sent(), e.Vote() as vote:
                self.sent_vote(event, what, vote)
            case e.Sent(), e.Begin() as begin:
                node = self.belief.node(event.node)
                self.explain("begin: who leads tells", {"leader": event.node}, {
                    "leads": (True, node.leads), "epoch": (node.epoch, begin.epoch),
                    "leader": (event.node, begin.sender), "voter": (what.to, begin.voter),
                })  # fmt: skip
            case e.Received(), e.Fetch():
                self.received_fetch(event, what, exchange)
            case e.Received(), e.Vote():
                self.received_vote(event, what, exchange)
            case e.Received(), e.Begin() as begin:
                sent = {"was sent": (True, exchange is not None), "voter": (event.node, begin.voter)}
                self.explain("begin: a member hears it", {"member": event.node}, sent)
            case e.Answered(), e.FetchAnswer():
                self.answered_fetch(event, what, exchange)
            case e.Answered(), e.VoteAnswer():
                self.answered_vote(event, what, exchange)
            case e.Answered(), e.BeginAnswer() as answer:
                node = self.belief.node(event.node)
                leader = -1 if node.leader is None else node.leader
                said = {"epoch": (node.epoch, answer.epoch), "leader": (leader, answer.leader)}
                self.explain("begin: answer", {"member": event.node}, said)
            case e.GotAnswer(), e.FetchAnswer():
                self.got_fetch_answer(event, what, exchange)
            case e.GotAnswer(), e.VoteAnswer():
                self.got_vote_answer(event, what, exchange)
            case e.GotAnswer(), e.BeginAnswer() as answer:
                self._got_begin_answer(event, what, exchange, answer)
            case _, message:
                self._other(event, message)

    def _got_begin_answer(
        self, event: e.Event, what: e.GotAnswer, exchange: Exchange | None, answer: e.BeginAnswer
    ) -> None:
        if what.failed or not self.order.has_log(what.source):
            self.verdicts.outside["an answer of the own client: the other could not be reached"] += (
                what.failed
            )
        else:
            said = {"answer": (exchange and exchange.answer, answer)}
            self.explain("begin: answer as it was sent", {"leader": event.node}, said)

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

    def _other(self, event: e.Event, message: e.Message) -> None:
        api = message.api if isinstance(message, e.Other) else type(message).__name__
        self.verdicts.outside[f"a message that the model has not: {api}"] += 1
        if isinstance(event.what, e.GotAnswer) and message == e.Other("UpdateRaftVoterResponse"):
            # Kafka counts this as contact with the leader, like an answer to a fetch.
            self.belief.node(event.node).heard = True
