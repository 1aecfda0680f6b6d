"""Scripted raft logs of three voters with missing, changed or late lines."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.model.language.model import Model
from highwater.model.quorum import Quorum
from highwater.traces.inputs import inputs
from highwater.traces.messages import quorum
from highwater.traces.messages.raft_replay import replay_raft
from highwater.traces.replay import replay_input
from highwater.traces.reports.report import Report, headline
from tests.traces.raft.test_runs import model
from tests.traces.raft.writing import State, Writer, scripted

Step = tuple[str, dict[str, int]]
LOST = "a fetch, or its answer, that was lost"
UNWRITTEN = "an append whose line its process did not write any more"
NO_RECORD: State = {"record": None, "hwm": -1, "diverging": False, "epoch": 0}


def asked(f: int) -> list[Step]:
    return [("send_fetch", {"f": f}), ("receive_fetch", {"leader": 0, "f": f})]


def fetched(f: int) -> list[Step]:
    return [*asked(f), ("take_answer", {"f": f})]


def elected(c: int, by: int) -> list[Step]:
    """Voter ``c`` gets a pre-vote from ``by`` and becomes a candidate in the next epoch."""
    return [
        ("stand", {"c": c}), ("ask", {"c": c, "v": by}), ("answer_vote", {"v": by, "c": c}),
        ("take_vote", {"c": c, "v": by}), ("win_pre_votes", {"c": c}),
    ]  # fmt: skip


GRANTED: list[Step] = [("ask", {"c": 1, "v": 2}), ("answer_vote", {"v": 2, "c": 1})]
"""Voter 2 votes for candidate 1."""
WAITS = [*fetched(1), *fetched(1), *asked(1)]
"""Member 1 has the leader's record and HWM; its third fetch is parked."""
TIMER: Step = ("park_timer", {"leader": 0, "f": 1})
APPEND: Step = ("append", {"leader": 0})


def written(steps: list[Step]) -> Writer:
    writer = Writer(3, 3)
    writer.run(*scripted(model("kafka_4_2", 0), steps))
    return writer


def drop(writer: Writer, member: int, said: str) -> None:
    lines = writer.lines[member]
    lines.pop(max(n for n, line in enumerate(lines) if said in line))


def told(report: Report) -> list[tuple[str, ...]]:
    """For each nonconforming candidate: action, differing fields, refusing guards. Also checks the JSON."""
    json.dumps(report.to_json(), allow_nan=False)
    return [
        (c.action, *sorted(c.differences), *c.refused_by) for u in report.unexplained for c in u.candidates
    ]


def guessed(report: Report, what: str) -> int:
    return report.figures.get(f"guessed: {what}", 0)


@pytest.mark.parametrize(("over", "expected"), [(True, []), (False, [("park_timer", "error")])])
def test_a_former_leader_answers_parked_fetches_with_an_error(
    over: bool, expected: list[tuple[str, ...]], tmp_path: Path
) -> None:
    """``over``: member 1 becomes a candidate while its fetch is parked, and asks the leader for a vote."""
    ends: list[Step] = [*elected(1, 2), ("ask", {"c": 1, "v": 0}), ("answer_vote", {"v": 0, "c": 1})]
    writer = written([*WAITS, *(ends if over else [])])
    writer.answers("fetch", 1, 0, writer.fetch_answer(0, NO_RECORD, error=6))
    report = replay_raft(writer.write(tmp_path))
    assert told(report) == expected
    assert report.skipped.get("a parked fetch of a leader that leads no more", 0) == over


def test_logs_without_a_step_are_not_called_correct(tmp_path: Path) -> None:
    files = written([]).write(tmp_path)
    report = replay_raft(files)
    assert headline(report).endswith("conforms to the rules of the metadata quorum in Kafka 4.2")
    for file in files:
        file.write_text(file.read_text().splitlines()[0])
    assert headline(replay_raft(files)) == "Nothing checked: the input has no step"


def test_states_that_are_too_large_for_the_properties_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = written(WAITS).write(tmp_path)
    assert replay_raft(files).notes == []
    monkeypatch.setattr(quorum, "WIDE", 0)
    (note,) = replay_raft(files).notes
    assert re.fullmatch(r"properties not checked in \d+ states: too many offsets or epochs", note)


def test_copies_of_a_log_are_skipped_and_rotated_logs_are_read(tmp_path: Path) -> None:
    restarts: list[Step] = [("restart", {"m": 2}), APPEND, ("take_answer", {"f": 1})]
    leader, follower, other = written([*WAITS, *restarts]).write(tmp_path)
    half = len(leader.read_bytes()) // 2
    shorter = leader.with_name("raft.log.old")
    shorter.write_bytes(leader.read_bytes()[:half])
    zipped = follower.with_name("raft.log.gz")
    zipped.write_bytes(gzip.compress(follower.read_bytes()))
    lines = other.read_bytes().splitlines(keepends=True)
    other.with_name("raft.log.1").write_bytes(b"".join(lines[:2]))
    other.write_bytes(b"".join(lines[2:]))
    again = shorter.parent / ".." / shorter.parent.name / shorter.name
    (found,) = inputs([tmp_path, again]).found
    report = replay_input(found)
    assert told(report) == []
    assert report.figures["nodes"] == 3
    assert report.figures["explained: complete_parked"] == 1
    assert {note.split(": ")[0] for note in report.notes} == {str(shorter), str(again), str(zipped)}


@pytest.mark.parametrize("candidate", [True, False])
def test_a_restarted_voter_that_voted_for_itself_is_a_candidate(candidate: bool, tmp_path: Path) -> None:
    """Voter 1 lost an election to voter 2 and followed it. Its quorum-state file has the leader and its own vote."""

    def voted(c: int, by: int) -> list[Step]:
        return [
            ("ask", {"c": c, "v": by}),
            ("answer_vote", {"v": by, "c": c}),
            ("take_vote", {"c": c, "v": by}),
        ]

    both = [*fetched(1), *fetched(2), ("stand", {"c": 1}), ("stand", {"c": 2}), *voted(1, 2), *voted(2, 1)]
    both += [("win_pre_votes", {"c": 1}), ("win_pre_votes", {"c": 2}), *voted(2, 0), ("win", {"c": 2})]
    writer = written([*both, ("learn", {"m": 1, "epoch": 1}), ("restart", {"m": 1})])
    assert "CandidateState(localId=101, epoch=2" in writer.lines[1][-1]
    if not candidate:
        follower = "FollowerState(epoch=2, leader=102, votedKey=Optional[ReplicaKey(id=101)])"
        writer.lines[1][-1] = re.sub(r"CandidateState\(.*\)(?= from null)", follower, writer.lines[1][-1])
    assert told(replay_raft(writer.write(tmp_path))) == (
        [] if candidate else [("restart", "ballot", "leader")]
    )


@pytest.mark.parametrize("begins_late", [False, True])
def test_a_former_leader_stays_resigned_when_it_restarts_again(begins_late: bool, tmp_path: Path) -> None:
    """``begins_late``: the leader's log begins with its first restart."""
    sizes = {"voters": 3, "observers": 0, "restarts": 2}
    writer = Writer(3, 3)
    restarts: list[Step] = [("restart", {"m": 0})] * 2
    writer.run(*scripted(Model(Quorum(sizes, Quorum.profiles["kafka_4_2"].rules)), restarts))
    at = [n for n, line in enumerate(writer.lines[0]) if "ResignedState" in line]
    assert len(at) == 2
    if begins_late:
        writer.lines[0] = writer.lines[0][at[0] - 1 :]
    assert told(replay_raft(writer.write(tmp_path))) == []


def test_the_last_answer_of_a_member_is_used_when_its_log_ends(tmp_path: Path) -> None:
    """No line follows an answer without news."""
    report = replay_raft(written([*WAITS, TIMER, ("take_answer", {"f": 1})]).write(tmp_path))
    assert told(report) == []
    assert report.figures["explained: take_answer"] == 3


def test_lines_missing_at_the_end_of_a_log_are_guessed(tmp_path: Path) -> None:
    writer = written(asked(1))
    drop(writer, 0, "Sent response")
    report = replay_raft(writer.write(tmp_path))
    assert told(report) == []
    assert guessed(report, "lines that its process did not write any more") == 1


def test_an_unanswered_vote_request_is_no_lost_fetch(tmp_path: Path) -> None:
    """Voter 2 never answers candidate 1's vote request; the replay does not take it for a lost fetch."""
    vote: list[Step] = [("stand", {"c": 1}), ("ask", {"c": 1, "v": 2}), ("answer_vote", {"v": 2, "c": 1})]
    writer = written([*vote, *asked(2)])
    drop(writer, 2, "Sent response")
    writer.sends("fetch", 1, 2, writer.fetch(1, {"epoch": 0, "offset": 0, "last_epoch": None, "hwm": -1}))
    report = replay_raft(writer.write(tmp_path))
    assert told(report) == [("what must follow", "an answer to member 101")]
    assert guessed(report, LOST) == 0


@pytest.mark.parametrize(
    ("dropped", "expected"),
    [("votedKey=Optional[", ["its epoch or its vote changes"]), ("votedKey=Optional.empty", ["voted"])],
)
def test_each_line_of_a_vote_is_needed(dropped: str, expected: list[str], tmp_path: Path) -> None:
    """Voter 2 grants a vote in a new epoch: one line has the epoch, the next one the vote."""
    writer = written([*elected(1, 2), *GRANTED])
    writer.sends("fetch", 2, 1, writer.fetch(2, {"epoch": 1, "offset": 0, "last_epoch": None, "hwm": -1}))
    epoch = [n for n, line in enumerate(writer.lines[2]) if "UnattachedState(epoch=2" in line]
    assert len(epoch) == 2
    (at,) = (n for n in epoch if dropped in writer.lines[2][n])
    del writer.lines[2][at]
    assert [what for one in told(replay_raft(writer.write(tmp_path))) for what in one[1:]] == expected


@pytest.mark.parametrize(
    ("offset", "expected", "guesses"), [(1, [], 0), (2, [], 1), (3, [("send_fetch", "offset")], 0)]
)
def test_a_restarted_member_may_have_the_records_of_its_last_answer_and_no_more(
    offset: int, expected: list[tuple[str, ...]], guesses: int, tmp_path: Path
) -> None:
    """Member 1 has one record; an answer with another one is in flight when it restarts."""
    writer = written([*fetched(1), APPEND, *asked(1), ("restart", {"m": 1})])
    writer.sends("fetch", 1, 0, writer.fetch(1, {"epoch": 0, "offset": offset, "last_epoch": 0, "hwm": -1}))
    report = replay_raft(writer.write(tmp_path))
    assert told(report) == expected
    assert guessed(report, UNWRITTEN) == guesses


def test_a_vote_for_the_same_candidate_in_the_next_epoch_is_logged_again(tmp_path: Path) -> None:
    """The answer is lost and the candidate stands again; the voter logs epoch and vote once more."""
    again: list[Step] = [("lose_vote", {"c": 1, "v": 2}), *elected(1, 2), *GRANTED]
    writer = written([*elected(1, 2), *GRANTED, *again])
    votes = [line for line in writer.lines[2] if "votedKey=Optional[ReplicaKey(id=101)]" in line]
    assert ["epoch=2" in line for line in votes] == [True, False]
    assert told(replay_raft(writer.write(tmp_path))) == []


def test_a_vote_verdict_during_a_fetch_does_not_conform(tmp_path: Path) -> None:
    """While the leader handles member 1's fetch, a vote verdict or vote answer belongs to no request."""
    writer = written(asked(1))
    answer = writer.lines[0].pop()
    vote = writer.vote(1, 0, {"epoch": 0, "pre": False, "last_epoch": None, "offset": 0})
    writer.say(0, "INFO", f"Vote request {vote} with epoch 1 is granted")
    given = writer.vote_answer(0, {"epoch": 0, "asked": 0, "granted": True})
    fetch = writer.open["fetch", 1, 0][1]
    assert fetch in answer
    start = answer.index("FetchResponseData(")
    reply = answer[:start] + given + answer[answer.index(") to inbound") :]
    writer.lines[0] += [reply.replace(fetch, vote), reply, answer]
    report = replay_raft(writer.write(tmp_path))
    assert told(report) == [
        ("answer_vote", "a request has just come"), ("answer_vote", "a request has just come"),
        ("answer_vote", "it answers a vote request"),
        ("answer", "it took the request"), ("answer", "the fetch is parked, or has just come"),
    ]  # fmt: skip
    assert report.unexplained[0].before == {"epoch": 1, "leader": 100, "leo": 1, "hwm": -1}


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        (r"voterStates=\{", "voterStates={999=VoterState(state=GRANTED), ", "granted"),
        (r"highWatermark=.*(?=\) from)", "highWatermark=Optional[LogOffsetMetadata(offset=7)]", "hwm"),
    ],
)
def test_a_candidates_line_has_its_own_votes_and_hwm(old: str, new: str, field: str, tmp_path: Path) -> None:
    """The candidate claims the vote of node 999, which is no voter, or an HWM that it does not know."""
    writer = written(elected(1, 2))
    at = max(n for n, line in enumerate(writer.lines[1]) if "CandidateState" in line)
    writer.lines[1][at] = changed(old, new)(writer.lines[1][at])
    writer.sends("vote", 1, 0, writer.vote(1, 0, {"epoch": 1, "pre": False, "last_epoch": None, "offset": 0}))
    assert told(replay_raft(writer.write(tmp_path)))[0] == ("win_pre_votes", field)


def alone(steps: list[Step]) -> Writer:
    """The logs of a single voter and an observer."""
    sizes = {"voters": 1, "observers": 1, "appends": 2}
    writer = Writer(1, 2)
    writer.run(*scripted(Model(Quorum(sizes, Quorum.profiles["kafka_4_2"].rules)), steps))
    return writer


@pytest.mark.parametrize("hwm", [3, 2])
def test_a_single_voter_commits_each_append(hwm: int, tmp_path: Path) -> None:
    """A single controller advances its HWM with each append."""
    writer = alone([APPEND, APPEND, *asked(1)])
    assert sum("Leader high watermark" in line for line in writer.lines[0]) == 2
    if hwm == 2:
        drop(writer, 0, "Leader high watermark updated to LogOffsetMetadata(offset=3")
    expected = [] if hwm == 3 else [("what must follow", "its HWM moves to 3")]
    assert told(replay_raft(writer.write(tmp_path))) == expected


def test_a_single_voter_can_append_twice_before_its_hwm_moves(tmp_path: Path) -> None:
    """Kafka appends several batches and then flushes them all, so the HWM moves once, from before the first append."""
    writer = alone([APPEND, APPEND])
    drop(writer, 0, "Leader high watermark updated to LogOffsetMetadata(offset=2")
    final = writer.lines[0].pop()
    writer.say(
        0, "DEBUG", "High watermark set to LogOffsetMetadata(offset=3) from LogOffsetMetadata(offset=1) x"
    )
    writer.lines[0].append(final)
    assert told(replay_raft(writer.write(tmp_path))) == []


def test_a_fetch_of_a_single_voter_does_not_conform(tmp_path: Path) -> None:
    """No other voter can lead."""
    writer = alone([])
    writer.sends("fetch", 0, 1, writer.fetch(0, {"epoch": 0, "offset": 1, "last_epoch": 0, "hwm": 1}))
    assert [action for action, *_ in told(replay_raft(writer.write(tmp_path)))] == ["send_fetch"]


def changed(old: str, new: str) -> Callable[[str], str]:
    def change(line: str) -> str:
        found = re.sub(old, new, line)
        assert found != line
        return found

    return change


def test_an_hwm_above_the_majority_is_found(tmp_path: Path) -> None:
    """The leader has two records and the others one, but its line has HWM 2."""
    writer = written([APPEND, *fetched(1), *asked(1)])
    at = next(n for n, line in enumerate(writer.lines[0]) if "Leader high watermark" in line)
    writer.lines[0][at] = changed(r"offset=1\b", "offset=2")(writer.lines[0][at])
    report = replay_raft(writer.write(tmp_path))
    assert ("hwm: leader", "hwm") in told(report)
    assert "committed_records_are_on_a_majority" in report.findings_count


def test_a_park_timer_may_expire_before_an_append_that_is_logged_earlier(tmp_path: Path) -> None:
    """The answers of two expired fetches, with the old HWM, follow an append; a new fetch comes between."""
    steps = [*fetched(1), *fetched(2), *fetched(1), *fetched(2), *asked(1), *asked(2)]
    steps += [
        TIMER,
        ("take_answer", {"f": 1}),
        ("park_timer", {"leader": 0, "f": 2}),
        ("send_fetch", {"f": 1}),
    ]
    steps += [APPEND, ("receive_fetch", {"leader": 0, "f": 1}), ("take_answer", {"f": 2})]
    writer = written(steps)
    lines = writer.lines[0]
    appended = max(n for n, line in enumerate(lines) if "appended records" in line)
    first, second = [n for n, line in enumerate(lines) if "Sent response" in line and n < appended][-2:]
    asked_again = next(n for n in range(appended, len(lines)) if "Received inbound" in lines[n])
    answered = lines[asked_again + 1 :]
    order = [appended, first, asked_again, second]
    times = ["[2026-11-21 10:00:00,680", *(lines[n].partition("]")[0] for n in (first, second, second))]
    moved = [f"{time}]{lines[n].partition(']')[2]}" for time, n in zip(times, order, strict=True)]
    writer.lines[0] = [*lines[:first], *moved, *answered]
    report = replay_raft(writer.write(tmp_path))
    assert told(report) == []
    assert report.findings_count == {}
    assert guessed(report, "a park timer that ran out as its fetch was completed") == 2


def test_an_answer_that_differs_from_the_sent_one_is_written_as_json(tmp_path: Path) -> None:
    writer = written(fetched(1))
    lines = writer.lines[1]
    at = max(n for n, line in enumerate(lines) if "FetchResponseData" in line)
    lines[at] = re.sub(r"highWatermark=-?\d+", "highWatermark=7", lines[at])
    report = replay_raft(writer.write(tmp_path))
    assert told(report)[0] == ("take_answer: as it was sent", "answer")
    (answer,) = (c["differences"]["answer"] for c in report.to_json()["unexplained"][0]["candidates"])
    assert answer["recorded"]["hwm"] == 7
