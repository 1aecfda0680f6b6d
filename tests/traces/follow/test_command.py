"""``highwater replay --follow``: its outputs, after kills and on a full disk."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from highwater.checker.base.problems import InputError
from highwater.checker.cli import cli
from highwater.checker.follow.outputs import EventFile, Hook, IncidentsFile, Metrics
from highwater.traces.follow.session import MAX_OPEN, Counts, IncidentChange, OpenIncidents
from tests.checker.schema import form_problems
from tests.traces.follow.clusters import Cluster, ends, events_of, latest

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
    """The JSON objects in the lines of a file; incomplete lines are left out."""
    whole = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in whole.splitlines() if line.endswith("}")]


def changes(path: Path) -> list[dict[str, Any]]:
    """The lines about incidents in a file of events."""
    return [line for line in lines(path) if "incident" in line]


def change(number: int) -> IncidentChange:
    """A change of an incident."""
    return IncidentChange("opened", 5, 0, {"id": f"t-{number}@5", "severity": "at_risk"})


def test_a_killed_command_continues_and_reports_every_change(
    log: bytes, cluster: Cluster, tmp_path: Path, start: Callable[..., Process]
) -> None:
    batches = ends(log)
    expected = events_of(log, tmp_path / "once")
    events, incidents = tmp_path / "events", tmp_path / "incidents"
    options = ("--events", str(events), "--incidents", str(incidents), "--quiet")
    first = start(cluster.folder, *options)
    half = batches[-6]
    cluster.grow(log[:half])
    until(lambda: changes(events))
    first.process.kill()
    first.process.communicate()
    with open(events, "a") as file:
        file.write('{"event": "op')  # a kill can leave a part of a line
    second = start(cluster.folder, *options)
    cluster.grow(log[half:])
    until(lambda: incidents.exists() and latest(changes(events)) == latest(expected))
    status, _, err = second.end()
    assert (status, err) == (0, "")
    found = json.loads(incidents.read_text())
    assert form_problems(found, "checker/follow/incidents.schema.json") == []
    assert found["incidents"] == [one for event, one in latest(expected).values() if event != "closed"] != []


def test_a_follower_that_waits_for_the_directory_does_not_write_the_file(
    log: bytes, cluster: Cluster, tmp_path: Path, start: Callable[..., Process]
) -> None:
    cluster.follow(log)
    file = IncidentsFile(tmp_path / "incidents", cluster.directory)
    assert cluster.follower.open_incidents is not None
    file.write(cluster.follower.open_incidents)
    cluster.directory.rename(cluster.folder / "away")
    before = file.path.stat().st_ino
    running = start(cluster.folder, "--incidents", str(file.path)).process
    assert running.stderr is not None
    assert "follows" in running.stderr.readline()
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=60)
    assert (running.returncode, file.path.stat().st_ino) == (0, before)


def test_a_pipe_that_nobody_reads_delays_no_signal_and_loses_no_event(
    log: bytes, cluster: Cluster, tmp_path: Path, start: Callable[..., Process]
) -> None:
    incidents, events, first = tmp_path / "incidents", tmp_path / "events", ends(log)[0]
    running = start(cluster.folder, "--events", "-", "--incidents", str(incidents), "--quiet").process
    assert running.stdout is not None
    assert running.stderr is not None
    fcntl.fcntl(running.stdout, fcntl.F_SETPIPE_SZ, 4096)
    cluster.grow(log[:first])
    until(incidents.exists)
    cluster.grow(log[first:])
    assert "nobody reads the pipe; events wait" in running.stderr.readline()
    before = time.monotonic()
    running.send_signal(signal.SIGTERM)
    assert running.wait(timeout=60) == 0
    assert time.monotonic() - before < 5
    assert "lines are not written" in running.communicate()[1]
    start(cluster.folder, "--events", str(events), "--incidents", str(incidents), "--quiet")
    expected = latest(events_of(log, tmp_path / "once"))
    until(lambda: latest(changes(events)) == expected)


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
    until(lambda: latest(lines(given)) == latest(expected))
    until(lambda: "opened" in said.readline())
    assert running.end(signal.SIGINT)[:2] == (130, "")


def test_an_incident_that_gets_a_worse_severity_is_counted_under_both(tmp_path: Path) -> None:
    file = tmp_path / "metrics.prom"
    metrics = Metrics(str(file))
    steps = (("opened", "at_risk"), ("changed", "at_risk"), ("changed", "lost"), ("closed", "lost"))
    before = None
    for event, severity in steps:
        metrics.count(IncidentChange(event, 5, 0, {"id": "t-0@5", "severity": severity}, before))
        before = severity
    metrics.update(Counts(), [])
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
    for event, id in (("opened", "a"), ("opened", "b"), ("closed", "b")):
        file.write({"event": event, "incident": {"id": id}})
    file.close()
    found = [(line["event"], line["incident"]["id"]) for line in lines(tmp_path / "events")]
    assert found == [("opened", "a"), ("opened", "b"), ("closed", "b")]
    assert capsys.readouterr().err.splitlines() == [
        f"highwater: --events {tmp_path / 'events'}: No space left on device; events wait",
        f"highwater: --events {tmp_path / 'events'}: can be written again",
    ]


INCIDENT = {"id": "t-0@3", "severity": "lost", "partition": "t-0", "position": {"offset": 3}}


@pytest.mark.parametrize(
    "damage", [lambda text: text[:-9], lambda text: text.replace('"lost"', "7"), lambda text: "[]"]
)
def test_a_damaged_file_of_incidents_is_reported_and_not_used(
    tmp_path: Path, damage: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    file, now = IncidentsFile(tmp_path / "incidents", DIRECTORY), OpenIncidents(0, 5, {"t-0@3": INCIDENT})
    file.write(now)
    assert file.read() == now
    file.path.write_text(damage(file.path.read_text()))
    assert file.read() is None
    assert "the log is read anew" in capsys.readouterr().err


def test_a_file_with_many_open_incidents_can_be_read(tmp_path: Path) -> None:
    file = IncidentsFile(tmp_path / "incidents", DIRECTORY)
    incidents = {
        id: {**INCIDENT, "id": id, "partition": "t" * 240, "cause": ["a, b." * 400]}
        for id in (f"{'t' * 240}-{number}@5" for number in range(MAX_OPEN))
    }
    file.write(OpenIncidents(0, 5, incidents))
    assert file.read() == OpenIncidents(0, 5, incidents)


def test_a_users_command_gets_the_newest_change_of_each_incident(tmp_path: Path) -> None:
    given = tmp_path / "given"
    hook = Hook(f"sh -c 'cat >> {given}'")
    for event in ("opened", "changed"):
        hook.give(replace(change(1), event=event))
        hook.give(replace(change(2), event=event))
    hook.close()
    assert [(e["event"], e["incident"]["id"]) for e in lines(given)] == [
        ("changed", "t-1@5"),
        ("changed", "t-2@5"),
    ]


def test_a_command_that_fails_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("false", "/no/such/command"):
        hook = Hook(command)
        hook.give(change(1))
        hook.close()
    err = capsys.readouterr().err
    assert "false: exit status 1" in err
    assert "/no/such/command: No such file" in err


@pytest.mark.parametrize("options", [("--json", "-"), ("--html", "x.html"), ("--engine", "spark")])
def test_options_of_a_finished_replay_are_refused(options: tuple[str, str], tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["replay", str(tmp_path), "--follow", *options])
    assert done.exit_code == 2
    assert "not with --follow" in done.stderr


def test_a_port_in_use_is_an_input_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(InputError, match="--metrics"):
        Metrics(f":{taken.getsockname()[1]}")
