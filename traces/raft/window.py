"""The part of a belief that a step is about, as a small state of the model: offsets and epochs are replaced by ranks.

A log of any length is as good as one with a record for each stretch between two of the offsets. All records of a
stretch have one epoch, as the starts of epochs are among the offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from highwater.model.language.step import Ranks
from highwater.traces.raft.belief import UNKNOWN, Belief, Log, Node, Response

OBSERVERS = 2
"""Members that are no voters in a window, at most."""


class TooLarge(Exception):
    """A step that is about more offsets or epochs than the model here has; the message says which."""


class Window:
    """A belief seen through the numbers of a model: ``nodes`` are in it, other members are as at the beginning.

    ``offsets`` and ``epochs`` are those that are named besides. With ``commits`` the committed log is in it, with
    ``votes`` the votes under way between the nodes.
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
        """Of votes between members those that are in it; only voters have any."""
        within = {n for n in self.nodes if n in self.belief.voters}
        return [pair for pair in of if within.issuperset(pair)]

    def _log(self, log: Log) -> Log:
        """A log whose epochs that nothing is compared with are told as the next one that something is."""
        kept: list[tuple[int, int]] = []
        ranks: list[int] = []
        for start, epoch in log.cuts:
            # Epochs between two that are compared are one to every comparison; the last of them stands for all.
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
        """A member's number in the model."""
        return None if node is None else self.slots.get(node)

    def state(
        self, model_voters: int, members: int, epochs: int, budgets: Mapping[str, int]
    ) -> dict[str, Any]:
        """The state, as the model's plain values."""
        if len(self.epochs.values) > epochs:
            raise TooLarge(f"a step is about {len(self.epochs.values)} epochs")
        b = self.belief
        requests, parked, responses = _nothing(members), _nothing(members), _nothing(members)
        if self.fetches:
            for n in self.nodes:
                slot = self.slots[n]
                requests[slot], parked[slot], responses[slot] = (
                    self._request(n), self._parked(n), self._response(b.responses.get(n))
                )  # fmt: skip
        asked = [_nothing(model_voters) for _ in range(model_voters)]
        given = [_nothing(model_voters) for _ in range(model_voters)]
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
        if number is None or number not in self.nodes:
            return _at_the_beginning(voters)
        node, fetched = self.belief.node(number), [UNKNOWN] * voters
        if node.leads:
            fetched = [self.offsets.rank(node.fetched.get(self.ids[v], UNKNOWN)) for v in range(voters)]
        return {
            "epoch": self.epochs.rank(node.epoch),
            "leader": self.slot(node.leader),
            "log": self._records(self.logs[number]),
            "hwm": self.offsets.rank(node.hwm),
            "peak": self.offsets.rank(node.peak),
            "fetched": fetched,
            "ballot": node.ballot,
            "granted": sorted(self.slots[v] for v in node.granted if v in self.belief.voters),
            "voted": None if node.voted not in self.belief.voters else self.slot(node.voted),
            "heard": node.heard,
        }

    def _records(self, log: Log) -> list[dict[str, int]]:
        """A record for each stretch."""
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
        """A member of the model's by its number."""
        return None if slot is None else self.ids.get(slot)


@lru_cache(maxsize=8)
def _at_the_beginning(voters: int) -> dict[str, Any]:
    """A member that a step is not about; not to be changed."""
    node = Node(-1)
    return {
        "epoch": node.epoch,
        "leader": node.leader,
        "log": [],
        "hwm": node.hwm,
        "peak": node.peak,
        "fetched": [UNKNOWN] * voters,
        "ballot": node.ballot,
        "granted": [],
        "voted": node.voted,
        "heard": node.heard,
    }


def _nothing(count: int) -> list[Any]:
    return [None] * count
