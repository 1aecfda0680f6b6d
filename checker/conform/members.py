"""Walks of the metadata quorum: each step of the protocol ``quorum`` taken by Kafka's own raft clients."""

from __future__ import annotations

from collections.abc import Sequence

from highwater.checker.base.problems import InputError
from highwater.checker.conform.cluster_state import Plain, Seen, mask, or_else
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
        found: Seen = []
        for m in range(len(state["members"])):
            found += _member(state, m, voters)
        for f in range(len(state["members"])):
            found += _fetch(state, f)
        for c in voters:
            for v in voters:
                found += _votes(state, c, v)
        return found + _log("committed", state["committed"])


def _log(name: str, log: Sequence[Plain]) -> Seen:
    return [(f"{name}.length", len(log)), *((f"{name}.epoch", record["epoch"]) for record in log)]


def _member(state: Plain, m: int, voters: range) -> Seen:
    member = state["members"][m]
    leads, was_elected = member["leader"] == m, state["elected"][member["epoch"]] == m
    found: Seen = [("epoch", member["epoch"]), ("leader", or_else(member["leader"]))]
    found.append(("ballot", _BALLOTS.index(member["ballot"])))
    found += [*_log("log", member["log"]), ("hwm", member["hwm"])]
    if leads:
        found += [("fetched", None if v == m else member["fetched"][v]) for v in voters]
    found.append(("voted", None if was_elected else or_else(member["voted"])))
    found += [
        ("granted", mask(member["granted"])),
        ("denied", mask(member["denied"]) if "denied" in member else None),
    ]
    return [*found, ("heard", int(member["heard"]))]


def _fetch(state: Plain, f: int) -> Seen:
    request, parked, answer = state["requests"][f], state["parked"][f], state["responses"][f]
    found: Seen = [("fetch", int(request is not None))]
    if request is not None:
        found += [(f"fetch.{n}", request[n]) for n in ("leader", "epoch", "offset")]
        found += [
            ("fetch.last_epoch", or_else(request["last_epoch"])),
            ("fetch.hwm", or_else(request["hwm"], _UNSENT)),
        ]
    found.append(("parked", int(parked is not None)))
    if parked is not None:
        found += [(f"parked.{n}", parked[n]) for n in ("leader", "epoch", "offset")]
    found.append(("answer", int(answer is not None)))
    if answer is not None:
        record, diverging = answer["record"], answer["diverging"]
        found += [
            ("answer.epoch", answer["epoch"]),
            ("answer.record", -1 if record is None else record["epoch"]),
            ("answer.hwm", answer["hwm"]),
            ("answer.diverging", int(diverging)),
            # If the logs share nothing, Kafka's answer has an epoch before those of the leader's log.
            ("answer.end_epoch", None if diverging and answer["end"] == 0 else or_else(answer["end_epoch"])),
            ("answer.end", answer["end"]),
            ("answer.timed_out", int(answer["timed_out"])),
        ]
    return found


def _votes(state: Plain, c: int, v: int) -> Seen:
    asks, answer = state["vote_requests"][c][v], state["vote_responses"][c][v]
    found: Seen = [("vote_request", int(asks is not None))]
    if asks is not None:
        found += [("vote_request.epoch", asks["epoch"]), ("vote_request.pre", int(asks["pre"]))]
        found += [
            ("vote_request.last_epoch", or_else(asks["last_epoch"])),
            ("vote_request.offset", asks["offset"]),
        ]
    found.append(("vote_answer", int(answer is not None)))
    if answer is not None:
        leader = or_else(answer["leader"]) if "leader" in answer else None
        found += [(f"vote_answer.{n}", int(answer[n])) for n in ("asked", "pre", "epoch")]
        found += [("vote_answer.leader", leader), ("vote_answer.granted", int(answer["granted"]))]
    return found


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
