"""Scenarios of ``quorum`` on Kafka's raft clients: they conform, and changed clients and rules differ."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from highwater.checker.conform import bridge as bridges
from highwater.checker.conform.bridge import Bridge
from highwater.checker.conform.class_files import ClassPath
from highwater.checker.conform.members import ExpectedMembers, QuorumWalks
from highwater.checker.conform.sources import adapted
from highwater.checker.conform.walks import differing
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.model.language.interpreter import interpreter_of
from highwater.model.language.model import Model
from tests import kafka_release
from tests.conform.test_conform import run
from tests.slow import all_but, often, slow

SMALL = "quorum/small-kafka-4.2"
VERSIONS = {
    "4.0.2": "kafka_4_0",
    "4.1.0": "kafka_4_2",
    "4.1.2": "kafka_4_2",
    "4.2.1": "kafka_4_2",
    "4.2.2": "kafka_4_2",
    "4.3.0": "kafka_4_2",
    "4.3.1": "kafka_4_2",
    "4.4.0": "kafka_4_2",
}
"""The profile of the quorum by release."""


def bounds(**values: int) -> list[str]:
    """The options of a scenario's parameters."""
    return [word for name, value in values.items() for word in ("--set", f"{name}={value}")]


MANY = bounds(voters=3, observers=1, elections=3, restarts=2, losses=2, appends=2)
"""Three voters and an observer, with faults: too many states to explore."""


def test_random_walks_of_raft_clients_reach_the_states_of_the_model(kafka: Path, tmp_path: Path) -> None:
    sample = (SMALL, *MANY, "--sample", "40", "--depth", "60", "--seed", "3")
    status, found, output = run(kafka, tmp_path, *sample)
    assert status == 3, output  # random walks are a sample
    (one,) = found["scenarios"]
    assert (one["differences"], one["paths"]) == ([], 40)
    assert one["steps"] > 2_000
    assert {"receive_fetch", "refuse_fetch", "restart", "answer_vote", "take_vote", "hear", "learn"} < set(
        one["steps_by_action"]
    )
    (again,) = run(kafka, tmp_path, *sample)[1]["scenarios"]
    assert (again["steps"], again["steps_by_action"]) == (one["steps"], one["steps_by_action"])


@slow("every step of a scenario, where the fast test walks at random")
def test_paths_cover_every_step_of_a_small_quorum(kafka: Path, tmp_path: Path) -> None:
    small = bounds(voters=2, appends=1, elections=2, losses=0, restarts=1)
    status, found, output = run(kafka, tmp_path, SMALL, *small)
    assert status == 0, output
    (one,) = found["scenarios"]
    assert (one["transitions"], one["not_compared"]) == (one["transitions_of_the_scenario"], {})


@pytest.mark.parametrize("version", VERSIONS)
@slow("fetches releases, and compiles the bridge against each")
def test_the_raft_client_of_each_release_follows_its_profile(version: str, tmp_path: Path) -> None:
    place, depth = kafka_release.kafka(version), ("--depth", "60", "--quiet")
    walks = (SMALL, *MANY, "--profile", VERSIONS[version], "--sample", str(often(200, 2_000)), *depth)
    status, _, said = run(place, tmp_path, *walks)
    assert status == 3, said
    other = "kafka_4_0" if VERSIONS[version] == "kafka_4_2" else "kafka_4_2"
    status, _, said = run(place, tmp_path, SMALL, *MANY, "--profile", other, "--sample", "40", *depth)
    assert status == 1, said


MIXED = {
    "an older observer": bounds(voters=3, observers=1, older=8, elections=1, settled=1),
    "a version that is finalised late": bounds(voters=3, finalised_late=1, elections=1, restarts=1),
}


@pytest.mark.parametrize("mixed", MIXED)
def test_members_that_send_different_versions_conform(kafka: Path, tmp_path: Path, mixed: str) -> None:
    arguments = (*MIXED[mixed], "--sample", str(often(40, 1_000)), "--depth", "40", "--quiet")
    status, _, said = run(kafka, tmp_path, SMALL, *arguments)
    assert status == 3, said


def test_a_scenario_that_raft_clients_cannot_play_is_refused(kafka: Path, tmp_path: Path) -> None:
    for arguments in (["--profile", "kip_1166"], ["--set", "voters=1"]):
        status, _, said = run(kafka, tmp_path, SMALL, *arguments)
        assert (status, "raft clients need votes as messages" in said) == (2, True), said
    status, _, said = run(kafka, tmp_path, SMALL, "--depth", "5")
    assert (status, "--depth is the length" in said) == (2, True), said


def test_a_counterexample_is_reproduced_by_raft_clients(kafka: Path, tmp_path: Path) -> None:
    gap = ("quorum/gap-restarted-follower", "--profile", "kafka_4_2", "--counterexamples")
    status, found, said = run(kafka, tmp_path, *gap)
    assert status == 0, said
    assert found["scenarios"][0]["runs"][0]["reproduced"]


# --- a candidate that Kafka stops -------------------------------------------------------------------------------

STOPPED = [
    *(f"the fetch timer of voter {c} expires" for c in (1, 2)),
    "voter 1 requests a vote from voter 2",
    "voter 2 answers the vote request of voter 1",
    "voter 2 requests a vote from voter 1",
    "voter 1 answers the vote request of voter 2",
    "voter 1 takes the answer of voter 2",
    "voter 2 takes the answer of voter 1",
    "voter 2 requests a vote from voter 0",
    "voter 0 answers the vote request of voter 2",
    "voter 2 takes the answer of voter 0",
    "member 1 learns who leads in epoch 1",
    "member 1 sends a fetch",
    "leader 2 takes the fetch of member 1",
    "member 1 takes the answer to its fetch",
    "member 1 restarts",
    "voter 1 requests a vote from voter 0",
    "voter 0 answers the vote request of voter 1",
    "voter 1 takes the answer of voter 0",
]
"""Voters 1 and 2 are candidates of one epoch. Voter 2 wins, voter 1 follows it, restarts, and is a candidate again."""


def test_an_invalid_vote_request_stops_the_candidate(bridge: Bridge) -> None:
    """K31. The model's candidate ignores the answer. Kafka's raft client throws."""
    model = model_of(voters=3, settled=1, elections=3, restarts=1, losses=0, appends=1)
    walk, thrown, fields = walked(bridge, model, STOPPED)
    assert walk[1::2] == [0] * (len(STOPPED) - 1) + [-500]
    assert fields[:-1] == [()] * (len(STOPPED) - 1)
    assert "IllegalStateException: Received unexpected invalid request error" in thrown


def model_of(**parameters: int) -> Model:
    """The model of a quorum as Kafka 4.2 has it."""
    scenario = replace(scenario_files.find(SMALL), properties=())
    return Request.of(scenario, Overrides(parameters=parameters)).without_goals().without_symmetry().model()


def walked(
    bridge: Bridge, model: Model, sentences: list[str]
) -> tuple[list[int], str, list[tuple[str, ...]]]:
    """A walk of Kafka's clients, the exception at its end, and after each step the fields that differ."""
    numbers = {instance.sentence: number for number, instance in enumerate(model.instances)}
    path, state, states = [numbers[sentence] for sentence in sentences], model.initial[0], []
    for number in path:
        state = interpreter_of(model).step(state, number).state or state
        states.append(state)
    operations = [QuorumWalks.operation_of(model.instances[number]) for number in path]
    bridge.begin({"scenario": QuorumWalks.setup_of(model), "operations": operations})
    answer = bridge.ask({"walk": [list(range(len(path)))]})
    expected, walk = ExpectedMembers(model), answer["walks"][0]
    seen = [answer["seen"][number] for number in walk[2::2]]
    fields = [differing(expected(state), one) for state, one in zip(states, seen, strict=True)]
    return walk, answer["thrown"].get("0", ""), fields


# --- clients that behave wrongly --------------------------------------------------------------------------------


class Wrong(NamedTuple):
    """A change of a client, made where its messages, its log or its file pass, and a difference that it causes."""

    file: str
    old: str
    new: str
    action: str
    field: str


_ANSWER = "int error = answer.partition().errorCode();"
_SENT = "versions[f]));\n        return DONE;"
_RECEIVED = (
    "CompletableFuture<RaftResponse.Outbound> response =\n            members[leader].handle(fetch.version"
)
_ASKED = "VOTE), VOTE), null);\n        return DONE;"
_VOTED = "VOTE), VOTE));\n    }\n\n    private void takeVote"
_LOG, _MEMBER, _QUORUM = "BridgedLog.java", "BridgedMember.java", "BridgedQuorum.java"


def _answers(change: str) -> tuple[str, str, str]:
    return _QUORUM, _ANSWER, f"answer.partition().{change};\n{_ANSWER}"


def _sends(change: str) -> tuple[str, str, str]:
    return _QUORUM, _SENT, f"versions[f]));\n        requests[f].partition().{change};\n        return DONE;"


def _asks(change: str) -> tuple[str, str, str]:
    asks = "voteRequests[c][v].asks()"
    later = f"if (!committed.isEmpty()) {{ {asks}.{change}; }}"  # the first election is not changed
    return _QUORUM, _ASKED, f"VOTE), VOTE), null);\n        {later}\n        return DONE;"


def _votes(change: str) -> tuple[str, str, str]:
    vote = "voteResponses[c][v].response.topics().get(0).partitions().get(0)"
    return _QUORUM, _VOTED, f"VOTE), VOTE));\n        {vote}.{change};\n    }}\n\n    private void takeVote"


WRONG = {
    "the HWM of an answer is one too high": Wrong(
        *_answers("setHighWatermark(answer.partition().highWatermark() + 1)"), "receive_fetch", "answer.hwm"
    ),
    "an answer has no records": Wrong(
        *_answers("setRecords(MemoryRecords.EMPTY)"), "receive_fetch", "answer.record"
    ),
    "an answer does not say that the logs diverge": Wrong(
        *_answers("divergingEpoch().setEpoch(-1).setEndOffset(-1)"), "receive_fetch", "answer.diverging"
    ),
    "a fetch says that the HWM is unknown": Wrong(*_sends("setHighWatermark(-1)"), "send_fetch", "fetch.hwm"),
    "a fetch has version 17": Wrong(
        _QUORUM,
        "Math.min(FETCH_WITH_HWM,",
        "Math.min(FETCH_WITH_HWM - 1,",
        "send_fetch",
        "fetch.hwm",
    ),
    "a fetch begins at the start of the log": Wrong(
        *_sends("setFetchOffset(0)"), "send_fetch", "fetch.offset"
    ),
    "a fetch has no last epoch": Wrong(
        *_sends("setLastFetchedEpoch(0)"), "send_fetch", "fetch.last_epoch"
    ),
    "a leader takes fetches of any epoch": Wrong(
        _QUORUM,
        _RECEIVED,
        f"fetch.partition().setCurrentLeaderEpoch(members[leader].client.quorum().epoch());\n        {_RECEIVED}",
        "refuse_fetch",
        "is refused (-2)",
    ),
    "an observer counts as voter 1": Wrong(
        _QUORUM,
        _RECEIVED,
        f"if (f >= voters) {{ fetch.data.replicaState().setReplicaId(1);\n"
        f"fetch.partition().setReplicaDirectoryId(new org.apache.kafka.common.Uuid(7, 2)); }}\n        {_RECEIVED}",
        "receive_fetch",
        "fetched",
    ),
    "a parked fetch is answered by its timer only": Wrong(
        _QUORUM, "one.response.isDone()) {", "one.response.isDone() && timedOut) {", "receive_fetch", "parked"
    ),
    "a parked fetch is not answered by its timer": Wrong(
        _QUORUM, "parked[f].timer.completeExceptionally(new TimeoutException());", "", "park_timer", "parked"
    ),
    "a truncation is left out": Wrong(
        _LOG,
        "epochs.subList(offset, epochs.size()).clear();",
        "",
        "take_answer",
        "log.length",
    ),
    "a truncation takes one record too many": Wrong(
        _LOG, "truncateTo(int offset) {", "truncateTo(int to) { int offset = Math.max(0, to - 1);", "take_answer",
        "log.length",
    ),
    "a restarted voter has forgotten its vote": Wrong(
        _MEMBER,
        "        queue = new Queue();",
        "        stored = stored.map(s -> s.hasLeader()\n"
        "            ? ElectionState.withElectedLeader(s.epoch(), s.leaderId(), Optional.empty(), java.util.Set.of())\n"
        "            : ElectionState.withUnknownLeader(s.epoch(), java.util.Set.of()));\n"
        "        queue = new Queue();",
        "restart",
        "voted",
    ),
    "an epoch is not written to disk": Wrong(
        _MEMBER, "stored = Optional.of(state);", "", "restart", "epoch"
    ),
    "a voter grants every vote": Wrong(*_votes("setVoteGranted(true)"), "answer_vote", "vote_answer.granted"),
    "a vote answer names no leader": Wrong(*_votes("setLeaderId(-1)"), "answer_vote", "vote_answer.leader"),
    "a pre-vote is requested as a vote": Wrong(*_asks("setPreVote(false)"), "ask", "vote_request.pre"),
    "a vote request has no log end": Wrong(*_asks("setLastOffset(0)"), "ask", "vote_request.offset"),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    all_but(["the HWM of an answer is one too high"], WRONG, "compiles the bridge with another change"),
)
def test_a_client_that_behaves_wrongly_differs(
    kafka: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    wrong = WRONG[name]

    def changed(paths: Iterable[Path], classes: ClassPath) -> dict[str, str]:
        texts = adapted(paths, classes)
        assert texts[wrong.file].count(wrong.old) == 1
        return {**texts, wrong.file: texts[wrong.file].replace(wrong.old, wrong.new)}

    monkeypatch.setattr(bridges, "adapted", changed)
    many = (
        bounds(voters=3, elections=2, restarts=3, losses=0, appends=1) if wrong.action == "restart" else MANY
    )
    _, found, said = run(kafka, tmp_path, SMALL, *many, "--sample", "300", "--depth", "40", "--quiet")
    rows = found["scenarios"][0]["differences"]
    assert any(row["step"] == wrong.action and wrong.field in row["differs"] for row in rows), said
