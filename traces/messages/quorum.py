"""The state of a quorum as its logs show it (*belief*), and the part of it that a model step needs (*window*).

A window replaces offsets and epochs by ranks. A log of any length becomes one record of the model for each range
between two ranked offsets. All records of a range have one epoch, because the start offsets of epochs are ranked, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from highwater.invariants.quorum import INVARIANTS
from highwater.model.language.initial import Scalars
from highwater.model.language.step import Memo, Ranks, Stepper, with_room
from highwater.model.quorum import Quorum
from highwater.model.quorum.cluster import BUDGETS
from highwater.traces.messages.raft_events import Exchange, Fetch, FetchAnswer, Vote

# --- belief ----------------------------------------------------------------------------------------------

UNKNOWN = -1


@dataclass
class Log:
    """A log as the start offsets of its epochs: ``cuts`` are (offset, epoch), ascending from 0. ``end`` is its LEO."""

    cuts: list[tuple[int, int]] = field(default_factory=list)
    end: int = 0

    @property
    def last_epoch(self) -> int | None:
        """The epoch of the last record; None if the log is empty."""
        return self.cuts[-1][1] if self.cuts else None

    def append(self, end: int, epoch: int) -> None:
        """Append records of one epoch up to the offset ``end``, if the log ends below it."""
        if end > self.end:
            if self.last_epoch != epoch:
                self.cuts.append((self.end, epoch))
            self.end = end

    def truncate(self, end: int) -> None:
        """Remove the records from the offset ``end`` on."""
        self.end = min(self.end, end)
        while self.cuts and self.cuts[-1][0] >= self.end:
            self.cuts.pop()

    def copy(self) -> Log:
        """A copy that later changes do not affect."""
        return Log(list(self.cuts), self.end)

    def epoch_at(self, offset: int) -> int:
        """The epoch of the last record at or before an offset; 0 for an empty log."""
        found = 0
        for start, epoch in self.cuts:
            if start > offset:
                break
            found = epoch
        return found


@dataclass
class Node:
    """A member's state, as its raft log shows it. ``log`` is its metadata log, None until a line describes the log."""

    id: int
    epoch: int = 0
    leader: int | None = None
    ballot: str = "none"
    granted: frozenset[int] = frozenset()
    voted: int | None = None
    heard: bool = False
    log: Log | None = None
    hwm: int = UNKNOWN
    peak: int = UNKNOWN
    fetched: dict[int, int] = field(default_factory=dict)
    starts: bool = False
    """True if the member has just become leader, and no line has shown its first record yet."""
    maybe_more: tuple[int, int] | None = None
    """After a restart: the end offset and epoch of an append that the former process may not have logged; else None."""

    @property
    def leads(self) -> bool:
        """True if the member considers itself the leader."""
        return self.leader == self.id


_SILENT = Node(-1)
"""The state of a member that is not part of a step."""


@dataclass
class Parked:
    """A parked fetch; ``answer`` is the leader's HWM at the time when it parked the fetch."""

    leader: int
    epoch: int
    offset: int
    answer: int
    exchange: Exchange | None


@dataclass
class Response:
    """A fetch answer in flight. ``source`` is a copy of the log from which its records were read, None if unknown."""

    epoch: int
    records: bool
    hwm: int
    diverging: tuple[int, int] | None
    offset: int
    source: Log | None
    timed_out: bool = False
    exchange: Exchange | None = None

    @classmethod
    def of(
        cls,
        answer: FetchAnswer,
        offset: int,
        source: Log | None,
        exchange: Exchange | None,
        timed_out: bool = False,
    ) -> Response:
        """The response to a fetch from ``offset``, made from the answer in a log line.

        ``exchange`` is the fetch with its answer.
        """
        said = answer.epoch, answer.size > 0, answer.hwm, answer.diverging
        return cls(*said, offset, source, timed_out, exchange)


@dataclass
class Belief:
    """The state of all nodes, and the messages in flight, as the lines read so far show them.

    Fetches are keyed by their sender, votes by candidate and voter.
    """

    voters: tuple[int, ...] = ()
    nodes: dict[int, Node] = field(default_factory=dict)
    requests: dict[int, tuple[int, Fetch]] = field(default_factory=dict)
    parked: dict[int, Parked] = field(default_factory=dict)
    responses: dict[int, Response] = field(default_factory=dict)
    vote_requests: dict[tuple[int, int], Vote] = field(default_factory=dict)
    vote_responses: dict[tuple[int, int], tuple[int, bool, int, bool]] = field(default_factory=dict)
    """(epoch of the request, True for a pre-vote, epoch of the voter, True if granted)."""
    elected: dict[int, int] = field(default_factory=dict)
    committed: Log = field(default_factory=Log)

    def node(self, number: int) -> Node:
        """The state of a member. A new member is added with an empty state."""
        found = self.nodes.get(number)
        if found is None:
            found = self.nodes[number] = Node(number)
        return found

    def drop_parked(self, leader: int) -> None:
        """Drop the parked fetches of a node that no longer leads."""
        self.parked = {f: p for f, p in self.parked.items() if p.leader != leader}


# --- window ----------------------------------------------------------------------------------------------

OBSERVERS = 2
"""The most members of a window that are not voters."""


class TooLarge(Exception):
    """The step needs more offsets, epochs or observers than the model has. The message names which."""


class Window:
    """The part of a belief that a step needs, with a slot for each member and ranks for offsets and epochs.

    The members ``nodes`` have their state from the belief, all others the initial state. ``offsets`` and ``epochs`` are
    additional values to rank. The flags select what else is in the window: the committed log (``commits``), and the
    nodes' fetches and votes in flight (``fetches``, ``votes``). Raises TooLarge if there are too many observers.
    """

    def __init__(
        self,
        belief: Belief,
        nodes: Iterable[int],
        offsets: Iterable[int] = (),
        epochs: Iterable[int] = (),
        *,
        commits: bool = False,
        fetches: bool = True,
        votes: bool = False,
    ) -> None:
        self.belief, self.nodes = belief, list(dict.fromkeys(nodes))
        self.commits, self.fetches, self.votes = commits, fetches, votes
        self.slots = {voter: slot for slot, voter in enumerate(belief.voters)}
        for node in self.nodes:
            if node not in self.slots:
                self.slots[node] = len(self.slots)
        self.ids = {slot: node for node, slot in self.slots.items()}
        if len(self.slots) > len(belief.voters) + OBSERVERS:
            raise TooLarge("more observers than fit into a step")
        self.epochs = Ranks.of({0, *epochs, *self._epochs()})
        self.logs = {n: self._log(belief.node(n).log or Log()) for n in self.nodes}
        self.committed = self._log(belief.committed) if commits else Log()
        self.offsets = Ranks.of({0, *(o for o in (*offsets, *self._offsets()) if o > 0)})

    # --- what is in it ------------------------------------------------------------------------------------------

    def _epochs(self) -> Iterable[int]:
        b = self.belief
        for n in self.nodes:
            node = b.node(n)
            yield node.epoch
            if node.log is not None and node.log.last_epoch is not None:
                yield node.log.last_epoch
            if n in b.requests and self.fetches:
                yield from (b.requests[n][1].epoch, b.requests[n][1].last_epoch)
            if n in b.parked and self.fetches:
                yield b.parked[n].epoch
            if n in b.responses and self.fetches:
                yield b.responses[n].epoch
                yield from (b.responses[n].diverging or ())[:1]
        if self.votes:
            for asked in self._pairs(b.vote_requests):
                yield from (b.vote_requests[asked].epoch, b.vote_requests[asked].last_epoch)
            for asked in self._pairs(b.vote_responses):
                yield from (b.vote_responses[asked][0], b.vote_responses[asked][2])
        if self.commits and b.committed.last_epoch is not None:
            yield b.committed.last_epoch

    def _pairs(self, of: Mapping[tuple[int, int], Any]) -> Iterable[tuple[int, int]]:
        """The pairs whose two members are both voters in this window."""
        within = {n for n in self.nodes if n in self.belief.voters}
        return [pair for pair in of if within.issuperset(pair)]

    def _log(self, log: Log) -> Log:
        """A copy of a log in which several epochs between two ranked epochs are merged into one.

        The merged epoch is the latest of them. It is added to the ranked epochs.
        """
        kept: list[tuple[int, int]] = []
        ranks: list[int] = []
        for start, epoch in log.cuts:
            # Epochs between two ranked ones compare equally with every ranked epoch, so the last of them stands for
            # all.
            rank = self.epochs.rank(epoch) * 2 + (epoch in self.epochs.values)
            if ranks and ranks[-1] == rank:
                kept[-1] = (kept[-1][0], epoch)
            else:
                kept.append((start, epoch))
                ranks.append(rank)
        for _, epoch in kept:
            if epoch not in self.epochs.values:
                self.epochs = Ranks.of({*self.epochs.values, epoch})
        return Log(kept, log.end)

    def _offsets(self) -> Iterable[int]:
        b = self.belief
        for log in (*self.logs.values(), self.committed):
            yield log.end
            yield from (start for start, _ in log.cuts)
        for n in self.nodes:
            node = b.node(n)
            yield from (node.hwm, node.peak)
            if node.leads:
                yield from node.fetched.values()
            if self.fetches:
                if n in b.requests:
                    yield b.requests[n][1].offset
                    yield b.requests[n][1].hwm or 0
                if n in b.parked:
                    yield from (b.parked[n].offset, b.parked[n].answer)
                if n in b.responses:
                    yield b.responses[n].hwm
                    yield from (b.responses[n].diverging or ())[1:]
        if self.votes:
            yield from (b.vote_requests[pair].offset for pair in self._pairs(b.vote_requests))

    # --- into the model -----------------------------------------------------------------------------------------

    def slot(self, node: int | None) -> int | None:
        """The slot of a member; None if ``node`` is None or the window has no slot for it."""
        return None if node is None else self.slots.get(node)

    def state(
        self, model_voters: int, members: int, epochs: int, budgets: Mapping[str, int]
    ) -> dict[str, Any]:
        """The model's state for this window, as plain values. Raises TooLarge if there are too many epochs."""
        if len(self.epochs.values) > epochs:
            raise TooLarge(f"a step is about {len(self.epochs.values)} epochs")
        b = self.belief
        requests: list[Any] = [None] * members
        parked, responses = requests.copy(), requests.copy()
        if self.fetches:
            for n in self.nodes:
                slot = self.slots[n]
                requests[slot], parked[slot], responses[slot] = (
                    self._request(n), self._parked(n), self._response(b.responses.get(n))
                )  # fmt: skip
        asked: list[list[Any]] = [[None] * model_voters for _ in range(model_voters)]
        given: list[list[Any]] = [[None] * model_voters for _ in range(model_voters)]
        if self.votes:
            self._fill_votes(asked, given)
        elected: list[int | None] = [None] * epochs
        for place, epoch in enumerate(self.epochs.values):
            elected[place] = self.slot(b.elected.get(epoch))
        return {
            "members": [self._member(self.ids.get(slot), model_voters) for slot in range(members)],
            "requests": requests,
            "parked": parked,
            "responses": responses,
            "vote_requests": asked,
            "vote_responses": given,
            "elected": elected,
            "committed": self._records(self.committed),
            "budgets": dict(budgets),
        }

    def _member(self, number: int | None, voters: int) -> dict[str, Any]:
        node = _SILENT if number is None or number not in self.nodes else self.belief.node(number)
        fetched = [UNKNOWN] * voters
        if node.leads:
            fetched = [self.offsets.rank(node.fetched.get(self.ids[v], UNKNOWN)) for v in range(voters)]
        return {
            "epoch": self.epochs.rank(node.epoch),
            "leader": self.slot(node.leader),
            "log": self._records(self.logs.get(node.id, Log())),
            "hwm": self.offsets.rank(node.hwm),
            "peak": self.offsets.rank(node.peak),
            "fetched": fetched,
            "ballot": node.ballot,
            "granted": sorted(self.slots[v] for v in node.granted if v in self.belief.voters),
            "voted": None if node.voted not in self.belief.voters else self.slot(node.voted),
            "heard": node.heard,
        }

    def _records(self, log: Log) -> list[dict[str, int]]:
        """The log as records of the model: one for each range between two ranked offsets."""
        return [
            {"epoch": self.epochs.rank(log.epoch_at(offset))}
            for offset in self.offsets.values
            if offset < log.end
        ]

    def _request(self, n: int) -> dict[str, Any] | None:
        if n not in self.belief.requests:
            return None
        to, fetch = self.belief.requests[n]
        return {
            "leader": self.slots.get(to, 0),
            "epoch": self.epochs.rank(fetch.epoch),
            "offset": self.offsets.rank(fetch.offset),
            "last_epoch": None if fetch.offset == 0 else self.epochs.rank(fetch.last_epoch),
            "hwm": None if fetch.hwm is None else self.offsets.rank(fetch.hwm),
        }

    def _parked(self, n: int) -> dict[str, Any] | None:
        parked = self.belief.parked.get(n)
        if parked is None:
            return None
        return {
            "leader": self.slots.get(parked.leader, 0),
            "epoch": self.epochs.rank(parked.epoch),
            "offset": self.offsets.rank(parked.offset),
            "answer": self.offsets.rank(parked.answer),
        }

    def _response(self, response: Response | None) -> dict[str, Any] | None:
        if response is None:
            return None
        end_epoch, end = response.diverging or (None, 0)
        epoch = response.source.epoch_at(response.offset) if response.source is not None else response.epoch
        return {
            "epoch": self.epochs.rank(response.epoch),
            "record": {"epoch": min(self.epochs.rank(epoch), len(self.epochs.values) - 1)}
            if response.records
            else None,
            "hwm": self.offsets.rank(response.hwm),
            "diverging": response.diverging is not None,
            "end_epoch": None if end_epoch is None or end == 0 else self.epochs.rank(end_epoch),
            "end": self.offsets.rank(end),
            "timed_out": response.timed_out,
        }

    def _fill_votes(self, asked: list[list[Any]], given: list[list[Any]]) -> None:
        b = self.belief
        for pair in self._pairs(b.vote_requests):
            vote = b.vote_requests[pair]
            asked[self.slots[pair[0]]][self.slots[pair[1]]] = {
                "epoch": self.epochs.rank(vote.epoch),
                "pre": vote.pre,
                "last_epoch": None if vote.offset == 0 else self.epochs.rank(vote.last_epoch),
                "offset": self.offsets.rank(vote.offset),
            }
        for pair in self._pairs(b.vote_responses):
            in_epoch, pre, epoch, granted = b.vote_responses[pair]
            given[self.slots[pair[0]]][self.slots[pair[1]]] = {
                "asked": self.epochs.rank(in_epoch),
                "pre": pre,
                "epoch": self.epochs.rank(epoch),
                "granted": granted,
            }

    # --- out of the model ---------------------------------------------------------------------------------------

    def id(self, slot: int | None) -> int | None:
        """The id of the member in a slot; None if ``slot`` is None or the window has no member in it."""
        return None if slot is None else self.ids.get(slot)


# --- judge -----------------------------------------------------------------------------------------------

PROFILE = "kafka_4_2"
EPOCHS, OFFSETS = 6, 16
WIDE = 40
"""Properties are checked only in windows with at most this many ranked offsets."""
REMEMBERED = 100_000


class Outcome(NamedTuple):
    """The result of a step: the model's state after it; or None, and the guards that refuse the step."""

    after: Mapping[str, Any] | None
    refused: tuple[str, ...] = ()


class Judge:
    """Executes the protocol `quorum` for a number of voters and a set of rules. Results are cached, up to a limit."""

    def __init__(self, voters: int, rules: frozenset[str]) -> None:
        self.voters, self.members, self.rules = voters, voters + OBSERVERS, rules
        self.steps, self.states = Memo(REMEMBERED), Memo(REMEMBERED)

    def _stepper(self, offsets: int) -> Stepper:
        sizes = {
            "voters": self.voters,
            "observers": OBSERVERS,
            "elections": EPOCHS - 1,
            "appends": offsets - EPOCHS,
        }
        return Stepper(with_room(Quorum, {**sizes, "restarts": 1, "losses": 1}, self.rules))

    @cached_property
    def _narrow(self) -> Stepper:
        return self._stepper(OFFSETS)

    @cached_property
    def _wide(self) -> Stepper:
        return self._stepper(WIDE)

    @cached_property
    def _properties(self) -> list[Any]:
        return [p for p in INVARIANTS if self._wide.protocol.has(p)]

    @cached_property
    def _holds(self) -> Any:
        return self._wide.functions([p.function for p in self._properties])

    def take(self, window: Window, action: str, **parameters: int) -> Outcome:
        """Take one step of an action in a window. Raises TooLarge if the window does not fit."""
        if len(window.offsets.values) > OFFSETS:
            raise TooLarge(f"a step is about {len(window.offsets.values)} offsets")
        state = self._state(self._narrow, window)
        key = action, tuple(sorted(parameters.items())), state
        return self.steps.of(key, self._take, state, action, parameters)

    def _take(self, state: Scalars, action: str, parameters: Mapping[str, int]) -> Outcome:
        step = self._narrow.named(action, parameters)
        if step is None:
            return Outcome(None, (f"there is no {action} with these rules and members",))
        refused = step.refusals(state)
        if refused:
            return Outcome(None, refused)
        left, after = step.result(state)
        assert not left, left[0].message
        return Outcome(self._narrow.decode(after))

    def violated(self, belief: Belief, nodes: list[int]) -> tuple[str, ...]:
        """The names of the properties violated by the states of ``nodes``. Raises TooLarge if the states do not fit."""
        window = Window(belief, nodes, commits=True)
        if len(window.offsets.values) > WIDE:
            raise TooLarge(f"a state has {len(window.offsets.values)} offsets")
        state = self._state(self._wide, window)
        return self.states.of(state, self._violated, state)

    def _violated(self, state: Scalars) -> tuple[str, ...]:
        results = self._holds(state)
        return tuple(p.name for p, holds in zip(self._properties, results, strict=True) if not holds)

    def _state(self, stepper: Stepper, window: Window) -> Scalars:
        budgets = BUDGETS.granted(stepper.protocol.p)
        return stepper.encode(window.state(self.voters, self.members, EPOCHS, budgets))
