"""``highwater replay --follow``: events, state, metrics and the user's command, after kills and on a full disk."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from highwater.checker.base.problems import InputError
from highwater.checker.cli import cli
from highwater.checker.follow import loop
from highwater.checker.follow.outputs import EventFile, Hook, Metrics, StateFile
from highwater.traces.follow.ledger import MAX_OPEN, IncidentEvent
from highwater.traces.follow.session import STATES, Counts, FollowerState, Following
from highwater.traces.reports.incidents import SEVERITIES
from tests.traces.follow.clusters import Cluster, ends, events_of

DIRECTORY = Path("/somewhere")


class Process:
    """A process of the command."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [sys.executable, "-m", "highwater", "replay", "--follow", str(folder), *options]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Send a signal; returns the exit status, standard output and standard error."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def begin(folder: Path, *options: str) -> Process:
        started.append(Process(folder, *options))
        return started[-1]

    yield begin
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()


def until(condition: Callable[[], Any]) -> Any:
    """Wait for a condition; returns its first true value. Raises AssertionError after a minute."""
    for _ in range(600):
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError("the condition did not become true within a minute")


def lines(path: Path) -> list[dict[str, Any]]:
    """The JSON objects in the complete lines of a file."""
    whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
    return [json.loads(line) for line in whole.splitlines()]


def is_running(process: int) -> bool:
    """True if a process of this id exists and has not ended."""
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def numbered(path: Path) -> list[dict[str, Any]]:
    return [line for line in lines(path) if "seq" in line]


def test_a_command_continues_after_a_kill_and_reports_each_event_once(
    log: bytes, cluster: Cluster, tmp_path: Path, start: Callable[..., Process]
) -> None:
    batches = ends(log)
    expected = events_of(log, tmp_path / "once")
    events, state = tmp_path / "events", tmp_path / "state"
    options = ("--events", str(events), "--state", str(state), "--quiet")
    first = start(cluster.folder, *options)
    half = batches[-6]
    cluster.grow(log[:half])
    until(lambda: numbered(events))
    first.process.kill()
    first.process.communicate()
    with open(events, "a") as file:
        file.write('{"seq": 99, "event": "op')  # a kill can leave a part of a line
    second = start(cluster.folder, *options)
    cluster.grow(log[half:])
    until(lambda: len(numbered(events)) == len(expected))
    status, _, err = second.end()
    assert (status, err) == (0, "")
    assert numbered(events) == expected
    assert json.loads(state.read_text())["state"]["next_offset"] > expected[-1]["offset"]


@pytest.fixture
def short_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop of the command ends after a few polls, and a state is due at each."""
    polls = iter(range(8))
    monkeypatch.setattr(loop, "POLL_SECONDS", loop.STATE_SECONDS)
    monkeypatch.setattr(
        threading.Event, "wait", lambda event, _: event.set() if next(polls, None) is None else None
    )


@pytest.mark.usefixtures("short_loop")
def test_a_follower_that_waits_for_the_directory_does_not_overwrite_the_state(
    log: bytes, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.follow(log)
    state = StateFile(tmp_path / "state")
    state.write(cluster.folder, cluster.follower.place)
    cluster.directory.rename(cluster.folder / "away")
    monkeypatch.setattr(StateFile, "write", lambda *_: pytest.fail("the state was written"))
    assert loop.follow([cluster.folder], None, {}, loop.Outputs(None, state, None, None), quiet=True) == 0


@pytest.mark.usefixtures("short_loop")
def test_events_written_after_the_last_state_are_not_mistaken_for_later_ones(
    log: bytes, cluster: Cluster, tmp_path: Path
) -> None:
    """A follower wrote two events and was killed. The next one finds both changes in one step, as one event."""
    events = tmp_path / "events"
    expected = events_of(log, tmp_path / "once")
    first = expected[0]
    changed = {**first, "seq": 2, "event": "changed", "incident": {**first["incident"], "headline": "worse"}}
    events.write_text("".join(json.dumps(event) + "\n" for event in (first, changed)))
    cluster.grow(log)
    outputs = loop.Outputs.opened(str(events), tmp_path / "state", None, None)
    assert loop.follow([cluster.folder], None, {}, outputs, quiet=True) == 0
    assert numbered(events)[-1]["incident"]["id"] == expected[-1]["incident"]["id"]
    found = [(e["event"], e["incident"]["id"]) for e in numbered(events)]
    assert [event for event, id in found if id == first["incident"]["id"]].count("closed") == 1
    assert [e["seq"] for e in numbered(events)] == list(range(1, len(found) + 1))


def test_a_pipe_that_nobody_reads_delays_no_signal_and_loses_no_event(
    log: bytes, cluster: Cluster, tmp_path: Path, start: Callable[..., Process]
) -> None:
    state, events, first = tmp_path / "state", tmp_path / "events", ends(log)[0]
    running = start(cluster.folder, "--events", "-", "--state", str(state), "--quiet").process
    assert running.stdout is not None
    assert running.stderr is not None
    fcntl.fcntl(running.stdout, fcntl.F_SETPIPE_SZ, 4096)
    cluster.grow(log[:first])
    until(state.exists)
    cluster.grow(log[first:])
    assert "nobody reads the pipe; events wait" in running.stderr.readline()
    before = time.monotonic()
    running.send_signal(signal.SIGTERM)
    assert running.wait(timeout=60) == 0
    assert time.monotonic() - before < 5
    running.communicate()
    start(cluster.folder, "--events", str(events), "--state", str(state), "--quiet")
    expected = events_of(log, tmp_path / "once")
    until(lambda: len(numbered(events)) >= len(expected))
    assert numbered(events) == expected


def test_metrics_and_the_users_command_agree_with_the_events(
    log: bytes, cluster: Cluster, tmp_path: Path, start: Callable[..., Process]
) -> None:
    given = tmp_path / "given"
    cluster.grow(log)
    keep = f"{sys.executable} -c \"import sys; open({str(given)!r}, 'a').write(sys.stdin.read())\""
    running = start(cluster.folder, "--metrics", ":0", "--on-incident", keep)
    assert running.process.stderr is not None
    said = running.process.stderr
    address = until(lambda: re.search(r"metrics at (\S+)", said.readline()))[1]
    expected = events_of(log, tmp_path / "once")

    def served() -> str:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return str(answer.read().decode())

    text = until(lambda: found if "offset 0" and 'state="all"} 2.0' in (found := served()) else "")
    assert "127.0.0.1" in address
    for line in (
        'highwater_partitions{state="at_risk"} 1.0',
        'highwater_incidents_opened_total{severity="at_risk"} 3.0',
    ):
        assert line in text
    until(lambda: len(lines(given)) == len(expected))
    assert lines(given) == expected
    until(lambda: "opened" in said.readline())
    assert running.end(signal.SIGINT)[:2] == (130, "")


def test_metrics_in_a_file_have_every_state_and_severity(
    log: bytes, cluster: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "metrics.prom"
    cluster.follow(log)
    metrics = Metrics(str(file))
    metrics.update(cluster.follower.counts, ["at_risk"], False)
    text = file.read_text()
    for state in STATES:
        assert f'highwater_partitions{{state="{state}"}}' in text
    for severity in SEVERITIES:
        assert f'highwater_incidents{{severity="{severity}"}} {float(severity == "at_risk")}' in text
    assert f"highwater_next_offset {float(cluster.follower.counts.next_offset)}" in text


def test_an_incident_that_gets_a_worse_severity_is_counted_under_both(tmp_path: Path) -> None:
    file = tmp_path / "metrics.prom"
    metrics = Metrics(str(file))
    steps = (("opened", "at_risk"), ("changed", "at_risk"), ("changed", "lost"), ("closed", "lost"))
    for seq, (event, severity) in enumerate(steps):
        metrics.count(IncidentEvent(seq, event, 5, 0, {"id": "t-0@5", "severity": severity}))
    metrics.update(Counts(), [], False)
    for severity, number in (("at_risk", 1.0), ("lost", 1.0), ("unclean", 0.0)):
        assert f'highwater_incidents_opened_total{{severity="{severity}"}} {number}' in file.read_text()


def test_events_wait_while_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, write, room = EventFile(str(tmp_path / "events")), os.write, [8, 0]

    def full(descriptor: int, data: bytes) -> int:
        if not room:
            return write(descriptor, data)
        if size := room.pop(0):
            return write(descriptor, data[:size])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    file.write({"seq": 1})
    assert (tmp_path / "events").read_text() == ""  # no part of a line that does not fit
    file.write({"seq": 2})
    file.close()
    assert [line["seq"] for line in lines(tmp_path / "events")] == [1, 2]
    assert capsys.readouterr().err.splitlines() == [
        f"highwater: --events {tmp_path / 'events'}: No space left on device; events wait",
        f"highwater: --events {tmp_path / 'events'}: can be written again",
    ]


@pytest.mark.parametrize(
    "damage", [lambda text: text[:-9], lambda text: text.replace('"seq": 7', '"seq": 8'), lambda text: "[]"]
)
def test_a_damaged_state_is_reported_and_the_log_is_read_from_the_beginning(
    tmp_path: Path, damage: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    state, place = StateFile(tmp_path / "state"), FollowerState(0, 5, 7, {"t-0@3": {"partition": "t-0"}})
    assert state.write(DIRECTORY, place)
    assert state.read(DIRECTORY) == place
    state.path.write_text(damage(state.path.read_text()))
    assert state.read(DIRECTORY) is None
    assert "the log is read anew" in capsys.readouterr().err


def test_a_state_of_another_directory_is_not_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = StateFile(tmp_path / "state")
    state.write(DIRECTORY, FollowerState(0, 5, 7, {}))
    assert state.read(DIRECTORY / "else") is None
    assert "of another directory" in capsys.readouterr().err


def test_a_users_command_is_killed_with_its_children_after_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Hook, "SECONDS", 0.6)
    number = tmp_path / "number"
    hook = Hook(f"sh -c 'sleep 300 & echo $! > {number}; sleep 300'")
    hook.give({"seq": 1})
    hook.close()
    assert "ended after" in capsys.readouterr().err
    until(lambda: not is_running(int(number.read_text())))


def test_no_command_outlives_the_follower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Hook, "SECONDS", 0.6)
    numbers = tmp_path / "numbers"
    hook = Hook(f"sh -c 'echo $$ >> {numbers}; exec sleep 300'")
    for seq in range(20):
        hook.give({"seq": seq})
    hook.close()
    assert not hook._thread.is_alive()
    assert "events are not given" in capsys.readouterr().err
    until(lambda: not any(is_running(int(number)) for number in numbers.read_text().split()))


def test_a_state_with_many_open_incidents_can_be_read(tmp_path: Path) -> None:
    state = StateFile(tmp_path / "state")
    incident = {"partition": "t" * 240, "cause": ["a, b." * 400]}
    place = FollowerState(0, 5, 7, {f"{'t' * 240}-{number}@5": incident for number in range(MAX_OPEN)})
    assert state.write(DIRECTORY, place)
    assert state.read(DIRECTORY) == place


def test_events_of_another_version_are_taken_over_or_passed_over(
    log: bytes, cluster: Cluster, tmp_path: Path
) -> None:
    events, once = tmp_path / "events", events_of(log, tmp_path / "once")
    incident = next(e for e in once if e["event"] == "opened" and e["incident"]["partition"] == "u-0")
    fields = ("id", "severity", "partition", "position")
    older = {**incident, "seq": 1, "incident": {name: incident["incident"][name] for name in fields}}
    foreign = {"seq": 2, "offset": 3, "incident": {"id": "x"}}
    events.write_text("".join(json.dumps(event) + "\n" for event in (older, foreign)))
    file = EventFile(str(events))
    place = loop._as_told(None, file, False)
    file.close()
    assert place is not None
    assert list(place.open) == [incident["incident"]["id"]]
    cluster.grow(log)
    cluster.restart(place)
    assert [e["event"] for e in cluster.follow() if e["incident"]["id"] in place.open] == ["changed"]


def test_the_directory_of_the_log_can_be_the_working_directory(
    log: bytes, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.grow(log)
    monkeypatch.chdir(cluster.directory)
    cluster.follower = Following(Path())
    assert cluster.follow()


@pytest.mark.parametrize("options", [("--json", "-"), ("--html", "x.html"), ("--engine", "spark")])
def test_options_of_a_finished_replay_are_refused(options: tuple[str, str], tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["replay", str(tmp_path), "--follow", *options])
    assert done.exit_code == 2
    assert "not with --follow" in done.stderr


def test_a_port_in_use_is_an_input_error(tmp_path: Path) -> None:
    metrics = Metrics(":0")
    with pytest.raises(InputError, match="--metrics"):
        Metrics(f":{metrics.port}")
    metrics.close()


def test_an_ipv6_address_for_metrics_stands_in_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, str]] = []

    def start(port: int, host: str, registry: object) -> tuple[None, None]:
        asked.append((port, host))
        return None, None

    monkeypatch.setattr("prometheus_client.start_http_server", start)
    Metrics("[::1]:9464")
    assert asked == [(9464, "::1")]


@pytest.mark.parametrize("opened", [lambda path: EventFile(str(path)), StateFile])
def test_a_second_follower_cannot_write_the_same_events_or_state(
    opened: Callable[[Path], EventFile | StateFile], tmp_path: Path
) -> None:
    first = opened(tmp_path / "file")
    with pytest.raises(InputError, match="another follower"):
        opened(tmp_path / "file")
    first.close()
    opened(tmp_path / "file").close()


def test_several_followers_can_write_to_a_device() -> None:
    files = [EventFile("/dev/null") for _ in range(2)]
    for file in files:
        file.close()
