"""Raft recordings that start late: earlier records and roles, and the recording's name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from highwater.model.quorum import Quorum
from highwater.traces.messages import raft_events as e
from highwater.traces.messages.quorum import PROFILE, Judge, Log
from highwater.traces.messages.quorum_roles import Follower
from highwater.traces.messages.raft_events import Order
from highwater.traces.messages.raft_replay import _common, replay_raft
from highwater.traces.reading import Place
from highwater.traces.reports.report import Report
from tests.traces.raft.writing import Writer

BEFORE, STATE = "a log from before the recording", "the state at the beginning of the recording"


def follower(*voters: int) -> Follower:
    return Follower(
        Judge(len(voters), Quorum.profiles[PROFILE].rules), Order(()), voters, Report("", "", PROFILE)
    )


def member(epoch: int, log: int = 0, **more: object) -> dict[str, Any]:
    """A member's state in the model, with ``log`` records of its epoch and the fields ``more``."""
    asleep: dict[str, Any] = {
        "leader": None,
        "voted": None,
        "ballot": "none",
        "granted": frozenset(),
        "hwm": -1,
    }
    return {**asleep, "epoch": epoch, "log": [{"epoch": epoch}] * log, **more}


def test_a_recording_is_named_by_the_nearest_directory_that_has_all_files() -> None:
    of_nodes = [Path("/r/logs/node1/raft.log"), Path("/r/logs/node2/raft.log")]
    assert _common(of_nodes) == Path("/r/logs")
    assert _common([Path("/r/logs/a.log"), Path("/r/logs/b.log")]) == Path("/r/logs")
    assert _common([*of_nodes, Path("/r/more/raft.log")]) == Path("/r")
    assert _common(of_nodes[:1]) == of_nodes[0], "of one file, the file"


@pytest.mark.parametrize("start", [0, 5])
def test_a_single_voter_has_the_log_end_of_its_leader_line(start: int, tmp_path: Path) -> None:
    """A single voter's log end first appears in the line that makes it leader."""
    writer = Writer(1, 1)
    mine = frozenset({0})
    writer.starts(0, member(1))
    writer.role(0, member(1, ballot="pre_vote", granted=mine))
    writer.role(0, member(2, ballot="vote", voted=0, granted=mine))
    writer.role(0, member(2, start + 1, leader=0, voted=0, hwm=start + 1))
    writer.first_record(0, member(2, start + 1))
    report = replay_raft(writer.write(tmp_path))
    assert report.unexplained == []
    assert report.figures["explained: win"] == 1
    assert report.figures.get(f"guessed: {BEFORE}", 0) == (start > 0)


def role(name: str, epoch: int, leader: int | None = None, voted: int | None = None) -> e.Role:
    return e.Role(name, epoch, leader, voted, None, None, True)


@pytest.mark.parametrize(
    ("before", "what", "wrong"),
    [
        (role("Unattached", 3, voted=2), role("Unattached", 3, voted=2), []),
        (role("Unattached", 3), role("Unattached", 3), []),
        (role("Follower", 3, leader=2), role("Resigned", 3), []),
        (role("Unattached", 3, voted=2), role("Unattached", 4, voted=2), ["epoch"]),
        (role("Unattached", 3, voted=2), role("Unattached", 3), ["voted"]),
    ],
)
def test_the_role_of_a_new_process_is_compared_with_the_one_before(
    before: e.Role, what: e.Role, wrong: list[str]
) -> None:
    found = follower(1, 2, 3)
    node = found.belief.node(1)
    found._start(node, before)
    found.event = e.Event(1, 0, Place(Path("node1/raft.log"), 1, ""), what)
    found._start(node, what)
    assert found.verdicts.explained["a process begins"] == 1, "the second one begins with what is known"
    assert found.verdicts.guessed[STATE] == 1
    assert [
        name for u in found.verdicts.report.unexplained for c in u.candidates for name in c.differences
    ] == wrong
    assert node.leader is None, "who has resigned follows nobody"


@pytest.mark.parametrize(
    ("end", "cuts", "guesses"),
    [(0, [], 0), (3, [(0, 1)], 1), (4, [(0, 1), (3, 2)], 1), (5, [(0, 1), (3, 2)], 1), (6, [(0, 7)], 1)],
)
def test_an_earlier_log_is_a_prefix_of_a_known_one(
    end: int, cuts: list[tuple[int, int]], guesses: int
) -> None:
    """A log that ends within a known log is its prefix; a longer one stays unknown."""
    found = follower(1, 2)
    known = found.belief.node(1).log = Log([(0, 1), (3, 2)], 5)
    log = found.log_of(found.belief.node(2), end, 7)
    assert (log, found.verdicts.guessed[BEFORE]) == (Log(cuts, end), guesses)
    assert known == Log([(0, 1), (3, 2)], 5), "which stays as it is"
    assert found.log_of(found.belief.node(2), end + 1, 7) is log, "what is known already is not guessed"
    assert found.verdicts.guessed[BEFORE] == guesses
