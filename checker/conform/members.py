"""Walks of the metadata quorum: each step of the protocol ``quorum`` taken by Kafka's own raft clients."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from highwater.checker.base.problems import InputError
from highwater.checker.conform.cluster_state import Fields, Plain, Seen, mask, named, or_else
from highwater.checker.conform.walks import WalkComparison, WalkResult
from highwater.model.language import Protocol
from highwater.model.language.model import Instance, Model
from highwater.model.quorum import Quorum
from highwater.model.replication.protocol import Replication

_UNSENT = -2
"""In place of the HWM of a fetch that has no such field."""
_BALLOTS = ("none", "pre_vote", "vote")


class QuorumResult(WalkResult):
    """The counts and differences of a comparison with raft clients."""

    compared_with = "the raft clients of Kafka"


class ExpectedMembers:
    """The observation of each state of a model of ``quorum``."""

    def __init__(self, model: Model) -> None:
        assert isinstance(model.protocol, Quorum)
        self.model, self.protocol = model, model.protocol

    def refusal(self, f: int, scalars: Sequence[int]) -> str:
        """The error by which the fetch of member ``f`` is refused in a state."""
        state = self.model.decode(scalars)
        fetch = state["requests"][f]
        known = state["members"][fetch["leader"]]["epoch"]
        if fetch["epoch"] == known:
            return "NOT_LEADER_OR_FOLLOWER"
        return "FENCED_LEADER_EPOCH" if fetch["epoch"] < known else "UNKNOWN_LEADER_EPOCH"

    def __call__(self, scalars: Sequence[int]) -> Seen:
        """The fields that the bridge should observe in a state."""
        state, voters = self.model.decode(scalars), range(self.protocol.p.voters)
        found: Seen = {}
        for m in range(len(state["members"])):
            for name, value, *places in (*_member(state, m, voters), *_fetch(state, m)):
                found[named(name, m, *places)] = int(value)
        for c, v in itertools.product(voters, voters):
            found |= {named(name, c, v): int(value) for name, value in _votes(state, c, v)}
        committed = _log("committed", state["committed"])
        return found | {named(name, *places): value for name, value, *places in committed}


def _log(name: str, log: Sequence[Plain]) -> Fields:
    yield f"{name}.length", len(log)
    yield from ((f"{name}.epoch", record["epoch"], offset) for offset, record in enumerate(log))


def _member(state: Plain, m: int, voters: range) -> Fields:
    """The fields of member ``m``, without its number."""
    member = state["members"][m]
    yield "epoch", member["epoch"]
    yield "leader", or_else(member["leader"])
    yield "ballot", _BALLOTS.index(member["ballot"])
    yield from _log("log", member["log"])
    yield "hwm", member["hwm"]
    if member["leader"] == m:
        yield from (("fetched", member["fetched"][v], v) for v in voters if v != m)
    if state["elected"][member["epoch"]] != m:
        yield "voted", or_else(member["voted"])
    yield from ((n, mask(member[n])) for n in ("granted", "denied") if n in member)
    yield "heard", member["heard"]


def _fetch(state: Plain, f: int) -> Fields:
    """The fields of the messages of member ``f``, without its number."""
    request, parked, answer = state["requests"][f], state["parked"][f], state["responses"][f]
    for name, fetch in ("fetch", request), ("parked", parked):
        yield name, fetch is not None
        if fetch is not None:
            yield from ((f"{name}.{n}", fetch[n]) for n in ("leader", "epoch", "offset"))
    if request is not None:
        yield "fetch.last_epoch", or_else(request["last_epoch"])
        yield "fetch.hwm", or_else(request["hwm"], _UNSENT)
    yield "answer", answer is not None
    if answer is not None:
        yield from ((f"answer.{n}", answer[n]) for n in ("epoch", "hwm", "diverging", "end", "timed_out"))
        yield "answer.record", -1 if answer["record"] is None else answer["record"]["epoch"]
        # If the logs share nothing, Kafka's answer has an epoch before those of the leader's log.
        if not answer["diverging"] or answer["end"] != 0:
            yield "answer.end_epoch", or_else(answer["end_epoch"])


def _votes(state: Plain, c: int, v: int) -> Fields:
    """The fields of the vote request of candidate ``c`` to voter ``v``, without their numbers."""
    request, answer = state["vote_requests"][c][v], state["vote_responses"][c][v]
    yield "vote_request", request is not None
    if request is not None:
        yield from ((f"vote_request.{n}", request[n]) for n in ("epoch", "pre", "offset"))
        yield "vote_request.last_epoch", or_else(request["last_epoch"])
    yield "vote_answer", answer is not None
    if answer is not None:
        yield from ((f"vote_answer.{n}", answer[n]) for n in ("asked", "pre", "epoch", "granted"))
        if "leader" in answer:
            yield "vote_answer.leader", or_else(answer["leader"])


class QuorumWalks(WalkComparison):
    """Compares the explored graph of a scenario of ``quorum`` with raft clients of Kafka."""

    result = QuorumResult
    observations = ExpectedMembers
    has_errors = False

    @staticmethod
    def setup_of(model: Model) -> Plain:
        """The bridge's settings for a quorum. Raises InputError if no raft client can have a member's part."""
        protocol = model.protocol
        assert isinstance(protocol, Quorum)
        if not protocol.on("votes_travel") or protocol.p.voters < 2 or protocol.p.consumers:
            raise InputError(
                "conform: raft clients need votes as messages (--profile kafka_4_2), two voters, and no consumers"
            )
        unsent = bool(protocol.p.finalised_late) or not protocol.on("fetch_carries_hwm")
        return {
            "voters": protocol.p.voters,
            "observers": protocol.p.observers,
            "older": [unsent or protocol.is_older(m) for m in protocol.member],
            "settled": bool(protocol.p.settled),
        }

    @staticmethod
    def operation_of(instance: Instance) -> Plain | None:
        """The bridge's operation for an action instance."""
        parameters = {k: v for k, v in instance.parameters.items() if isinstance(v, int)}
        return {"name": instance.action.name, **parameters}

    def reason(self, state: int, instance: int) -> str | None:
        """The reason why no path can take a step; None if a path can take it."""
        step, protocol = self.model.instances[instance], self.model.protocol
        assert isinstance(protocol, Quorum)
        if step.action.name == "receive_fetch" and protocol.is_older(step.parameters["leader"]):
            return "receive_fetch: a leader of this Kafka answers parked fetches when its HWM advances"
        return None

    def judged(self, state: int, instance: int, outcome: int, fields: tuple[str, ...]) -> str | None:
        """The reason for a known difference of a step; there is none."""
        return None


def walks_of(protocol: type[Protocol]) -> type[WalkComparison] | None:
    """The comparison by walks of a protocol; None if it is compared in each state."""
    if issubclass(protocol, Quorum):
        return QuorumWalks
    return WalkComparison if issubclass(protocol, Replication) else None
