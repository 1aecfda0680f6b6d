"""Raft logs in Kafka 4.2's format, written from runs of the protocol `quorum`.

Member m is node 100 + m; the model's epoch e is epoch e + 1 in the logs. A run starts with a leader, announced
by a line that Kafka does not write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Model

CLIENT = "(org.apache.kafka.raft.KafkaRaftClient)"
State = dict[str, Any]
Taken = tuple[str, dict[str, Any], State, State]
"""An action, its parameters, and the states before and after."""


def taken(model: Model, path: Iterable[int], initial: Sequence[int]) -> tuple[State, list[Taken]]:
    """The first state and the steps of a run given by instance numbers."""
    interpreter, state = Interpreter(model), tuple(initial)
    first, run = model.decode(state), []
    for number in path:
        instance, after = model.instances[number], interpreter.step(state, number).state
        assert after is not None
        run.append(
            (instance.action.name, dict(instance.parameters), model.decode(state), model.decode(after))
        )
        state = after
    return first, run


def scripted(model: Model, script: Iterable[tuple[str, dict[str, int]]]) -> tuple[State, list[Taken]]:
    """The first state and the steps of a run given by action names. Each action must be enabled."""
    numbers = {(i.action.name, tuple(sorted(i.parameters.items()))): n for n, i in enumerate(model.instances)}
    path = [numbers[name, tuple(sorted(parameters.items()))] for name, parameters in script]
    interpreter, state = Interpreter(model), model.first_initial
    for number in path:
        refused = interpreter.refusals(state, model.instances[number])
        assert not refused, (str(model.instances[number]), refused)
        after = interpreter.step(state, number).state
        assert after is not None
        state = after
    return taken(model, path, model.first_initial)


def node(member: int | None) -> int:
    return -1 if member is None else 100 + member


@dataclass
class Writer:
    """Collects the lines of each node."""

    voters: int
    members: int
    lines: dict[int, list[str]] = field(default_factory=dict)
    now: int = 0
    correlations: dict[int, int] = field(default_factory=dict)
    open: dict[tuple[str, int, int], tuple[int, str]] = field(default_factory=dict)
    """By (kind, sender, receiver): correlation id and text of the last request."""

    def say(self, member: int, level: str, text: str, logger: str = CLIENT) -> None:
        self.now += 5
        minutes, ms = divmod(self.now, 60_000)
        stamp = f"2026-11-21 10:{minutes:02}:{ms // 1000:02},{ms % 1000:03}"
        line = f"[{stamp}] {level} [RaftManager id={node(member)}] {text} {logger}"
        self.lines.setdefault(member, []).append(line)

    def write(self, place: Path) -> list[Path]:
        files = []
        for member, lines in sorted(self.lines.items()):
            file = place / f"node{node(member)}" / "raft.log"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("\n".join(lines) + "\n", encoding="utf-8")
            files.append(file)
        return files

    # --- messages -----------------------------------------------------------------------------------------------

    def sends(self, kind: str, sender: int, to: int, data: str) -> None:
        number = self.correlations[sender] = self.correlations.get(sender, -1) + 1
        self.open.pop((kind, sender, to), None)
        self.open[kind, sender, to] = number, data
        self.say(sender, "TRACE", f"Sent outbound request: OutboundRequest(correlationId={number}, data={data}, "
                 f"createdTimeMs={self.now}, destination={self.address(to)})")  # fmt: skip

    def receives(self, kind: str, sender: int, to: int) -> None:
        number, data = self.open[kind, sender, to]
        self.say(to, "TRACE", f"Received inbound message InboundRequest(listenerName=ListenerName(CONTROLLER), "
                 f"correlationId={number + 7}, apiVersion=18, data={data}, createdTimeMs={self.now})")  # fmt: skip

    def answers(self, kind: str, sender: int, to: int, data: str) -> None:
        number, request = self.open[kind, sender, to]
        self.open.pop(("answer to " + kind, sender, to), None)
        self.open["answer to " + kind, sender, to] = number, data
        self.say(to, "TRACE", f"Sent response OutboundResponse(correlationId={number + 7}, data={data}) to inbound "
                 f"request InboundRequest(listenerName=ListenerName(CONTROLLER), correlationId={number + 7}, "
                 f"apiVersion=18, data={request}, createdTimeMs={self.now})")  # fmt: skip

    def gets(self, kind: str, sender: int, to: int) -> None:
        number, data = self.open["answer to " + kind, sender, to]
        self.say(sender, "TRACE", f"Received inbound message InboundResponse(correlationId={number}, data={data}, "
                 f"source={self.address(to)})")  # fmt: skip

    @staticmethod
    def address(member: int) -> str:
        return f"127.0.0.1:9093 (id: {node(member)} rack: null isFenced: false)"

    # --- parts of lines -----------------------------------------------------------------------------------------

    def voter_set(self) -> str:
        return ", ".join(
            f"{node(v)}=VoterNode(voterKey=ReplicaKey(id={node(v)}))" for v in range(self.voters)
        )

    def fetch(self, f: int, request: State) -> str:
        hwm = 2**63 - 1 if request["hwm"] is None else request["hwm"]
        last = 0 if request["last_epoch"] is None else request["last_epoch"] + 1
        return (
            f"FetchRequestData(clusterId='c', replicaId=-1, replicaState=ReplicaState(replicaId={node(f)}, "
            f"replicaEpoch=-1), maxWaitMs=500, topics=[FetchTopic(topic='', partitions=[FetchPartition(partition=0, "
            f"currentLeaderEpoch={request['epoch'] + 1}, fetchOffset={request['offset']}, lastFetchedEpoch={last}, "
            f"highWatermark={hwm})])], rackId='')"
        )

    def fetch_answer(self, leader: int, answer: State, error: int = 0) -> str:
        size = 72 if answer["record"] else 0
        end = answer["end"] if answer["diverging"] else -1
        epoch = (
            -1 if not answer["diverging"] else 0 if answer["end_epoch"] is None else answer["end_epoch"] + 1
        )
        return (
            f"FetchResponseData(throttleTimeMs=0, errorCode=0, responses=[FetchableTopicResponse(topic='', "
            f"partitions=[PartitionData(partitionIndex=0, errorCode={error}, highWatermark={answer['hwm']}, "
            f"divergingEpoch=EpochEndOffset(epoch={epoch}, endOffset={end}), currentLeader=LeaderIdAndEpoch("
            f"leaderId={node(leader)}, leaderEpoch={answer['epoch'] + 1}), snapshotId=SnapshotId(endOffset=-1, "
            f"epoch=-1), records=MemoryRecords(size={size}, buffer=java.nio.HeapByteBuffer[pos=0 lim={size}]))])])"
        )

    def vote(self, c: int, v: int, request: State) -> str:
        last = 0 if request["last_epoch"] is None else request["last_epoch"] + 1
        return (
            f"VoteRequestData(clusterId='c', voterId={node(v)}, topics=[TopicData(topicName='__cluster_metadata', "
            f"partitions=[PartitionData(partitionIndex=0, replicaEpoch={request['epoch'] + 1}, replicaId={node(c)}, "
            f"lastOffsetEpoch={last}, lastOffset={request['offset']}, preVote={str(request['pre']).lower()})])])"
        )

    def vote_answer(self, leader: int | None, answer: State) -> str:
        error = 74 if answer["epoch"] > answer["asked"] else 0
        return (
            f"VoteResponseData(errorCode=0, topics=[TopicData(topicName='__cluster_metadata', partitions=["
            f"PartitionData(partitionIndex=0, errorCode={error}, leaderId={node(leader)}, "
            f"leaderEpoch={answer['epoch'] + 1}, voteGranted={str(answer['granted']).lower()})])])"
        )

    def role(self, m: int, member: State, first: bool = False) -> None:
        epoch, leader = member["epoch"] + 1, member["leader"]
        hwm = (
            "Optional.empty" if member["hwm"] < 0 else f"Optional[LogOffsetMetadata(offset={member['hwm']})]"
        )
        voted = (
            "Optional.empty"
            if member["voted"] is None
            else f"Optional[ReplicaKey(id={node(member['voted'])})]"
        )
        known = "OptionalInt.empty" if leader is None else f"OptionalInt[{node(leader)}]"
        states = ", ".join(
            f"{node(v)}=VoterState(state={'GRANTED' if v in member['granted'] else 'UNRECORDED'})"
            for v in range(self.voters)
        )
        election = f"epochElection=EpochElection[voterStates={{{states}}}]"
        if leader == m:
            grown = len(member["log"]) - 1
            said = f"Leader(localVoterNode=VoterNode(), epoch={epoch}, epochStartOffset={grown}, highWatermark={hwm})"
        elif member["ballot"] == "vote":
            said = f"CandidateState(localId={node(m)}, epoch={epoch}, {election}, highWatermark={hwm})"
        elif member["ballot"] == "pre_vote":
            said = f"ProspectiveState(epoch={epoch}, leaderId={known}, votedKey={voted}, {election}"
            said += f", highWatermark={hwm})"
        elif leader is not None:
            said = (
                f"FollowerState(epoch={epoch}, leader={node(leader)}, votedKey={voted}, highWatermark={hwm})"
            )
        elif first and member["voted"] == m:
            said = f"ResignedState(localId={node(m)}, epoch={epoch})"
        else:
            said = f"UnattachedState(epoch={epoch}, leaderId={known}, votedKey={voted}, highWatermark={hwm})"
        self.say(m, "INFO", f"Completed transition to {said} from {'null' if first else 'X()'}",
                 "(org.apache.kafka.raft.QuorumState)")  # fmt: skip

    def starts(self, m: int, member: State) -> None:
        self.say(m, "INFO", f"Starting voters are VoterSet(voters={{{self.voter_set()}}})")
        self.role(m, member, first=True)

    def first_record(self, m: int, member: State) -> None:
        end = len(member["log"])
        self.say(m, "TRACE", f"Leader appended records at base offset {end - 1}, new end offset is "
                 f"OffsetAndEpoch[offset={end}, epoch={member['epoch'] + 1}]")  # fmt: skip

    # --- steps --------------------------------------------------------------------------------------------------

    def run(self, first: State, run: Iterable[Taken]) -> None:
        for m, member in enumerate(first["members"]):
            self.starts(m, member)
            if member["leader"] == m:
                self.first_record(m, member)
        for name, parameters, before, after in run:
            getattr(self, name)(before, after, **parameters)

    def send_fetch(self, before: State, after: State, f: int) -> None:
        request = after["requests"][f]
        self.sends("fetch", f, request["leader"], self.fetch(f, request))

    def receive_fetch(self, before: State, after: State, leader: int, f: int) -> None:
        self.receives("fetch", f, leader)
        self._hwm(before, after, leader, "Leader")
        self._completed(before, after, leader, f)
        if after["parked"][f] is None:
            self.answers("fetch", f, leader, self.fetch_answer(leader, after["responses"][f]))

    def refuse_fetch(self, before: State, after: State, f: int) -> None:
        leader = before["requests"][f]["leader"]
        self.receives("fetch", f, leader)
        member = before["members"][leader]
        nothing = {"record": None, "hwm": -1, "diverging": False, "epoch": member["epoch"]}
        text = self.fetch_answer(leader, nothing, 74)
        known = node(member["leader"])
        self.answers("fetch", f, leader, text.replace(f"leaderId={node(leader)}", f"leaderId={known}"))

    def _hwm(self, before: State, after: State, m: int, who: str) -> None:
        hwm = after["members"][m]["hwm"]
        if hwm != before["members"][m]["hwm"]:
            said = f"LogOffsetMetadata(offset={hwm}, metadata=Optional.empty)" if who == "Leader" else hwm
            self.say(m, "DEBUG", f"{who} high watermark updated to {said}")

    def _completed(self, before: State, after: State, leader: int, but: int | None) -> None:
        for g, parked in enumerate(before["parked"]):
            if g != but and parked and parked["leader"] == leader and after["parked"][g] is None:
                self.say(leader, "TRACE", f"Completing delayed fetch from ReplicaKey(id={node(g)}) starting at offset "
                         f"{parked['offset']} at 1")  # fmt: skip
                self.answers("fetch", g, leader, self.fetch_answer(leader, after["responses"][g]))

    def park_timer(self, before: State, after: State, leader: int, f: int) -> None:
        self.now += 600
        self.answers("fetch", f, leader, self.fetch_answer(leader, after["responses"][f]))

    def take_answer(self, before: State, after: State, f: int) -> None:
        answer = before["responses"][f]
        leader = next(
            to for kind, sender, to in reversed(self.open) if kind == "answer to fetch" and sender == f
        )
        self.gets("fetch", f, leader)
        log, was = after["members"][f]["log"], before["members"][f]["log"]
        if answer["diverging"] and len(log) < len(was):
            self.say(
                f, "INFO", f"Truncated to offset {len(log)} from Fetch response from leader {node(leader)}"
            )
        elif len(log) > len(was):
            self.say(f, "TRACE", f"Follower end offset updated to OffsetAndEpoch[offset={len(log)}, "
                     f"epoch={log[-1]['epoch'] + 1}] after append")  # fmt: skip
        self._hwm(before, after, f, "Follower")

    def append(self, before: State, after: State, leader: int) -> None:
        self.first_record(leader, after["members"][leader])
        self._hwm(before, after, leader, "Leader")
        self._completed(before, after, leader, None)

    def drain_nothing(self, before: State, after: State, leader: int) -> None:
        self._completed(before, after, leader, None)

    def stand(self, before: State, after: State, c: int) -> None:
        self.role(c, after["members"][c])

    win_pre_votes = give_up = stand

    def win(self, before: State, after: State, c: int) -> None:
        self.role(c, after["members"][c])
        self.first_record(c, after["members"][c])
        self._hwm({"members": [{**m, "hwm": -1} for m in before["members"]]}, after, c, "Leader")

    def learn(self, before: State, after: State, m: int, epoch: int) -> None:
        self.role(m, after["members"][m])

    hear = learn

    def restart(self, before: State, after: State, m: int) -> None:
        self.starts(m, after["members"][m])
        self.correlations[m] = -1

    def ask(self, before: State, after: State, c: int, v: int) -> None:
        self.sends("vote", c, v, self.vote(c, v, after["vote_requests"][c][v]))

    def answer_vote(self, before: State, after: State, v: int, c: int) -> None:
        self.receives("vote", c, v)
        was, member, given = before["members"][v], after["members"][v], after["vote_responses"][c][v]
        if member["epoch"] != was["epoch"]:
            self.role(v, {**member, "voted": None})
        if member["voted"] is not None and (member["epoch"], member["voted"]) != (was["epoch"], was["voted"]):
            self.role(v, member)
        if given["epoch"] == given["asked"]:
            text = self.open["vote", c, v][1]
            self.say(
                v,
                "INFO",
                f"Vote request {text} with epoch 1 is {'granted' if given['granted'] else 'rejected'}",
            )
        self.answers("vote", c, v, self.vote_answer(member["leader"], given))

    def take_vote(self, before: State, after: State, c: int, v: int) -> None:
        self.gets("vote", c, v)
        if after["members"][c]["epoch"] != before["members"][c]["epoch"]:
            self.role(c, after["members"][c])

    def lose_vote(self, before: State, after: State, c: int, v: int) -> None:
        self.fails("vote", c, v, "VoteResponseData(errorCode=8, topics=[])")

    def lose_fetch(self, before: State, after: State, f: int) -> None:
        leader = next(to for kind, sender, to in reversed(self.open) if kind == "fetch" and sender == f)
        self.fails("fetch", f, leader, "FetchResponseData(throttleTimeMs=0, errorCode=8, responses=[])")

    def fails(self, kind: str, sender: int, to: int, data: str) -> None:
        """The sender's client gives up and makes an answer itself."""
        number, _ = self.open[kind, sender, to]
        self.say(sender, "TRACE", f"Received inbound message InboundResponse(correlationId={number}, data={data}, "
                 f"source={self.address(to)})")  # fmt: skip


def written(place: Path, model: Model, first: State, run: Iterable[Taken]) -> list[Path]:
    writer = Writer(model.protocol.p.voters, len(first["members"]))
    writer.run(first, run)
    return writer.write(place)
