"""A Kafka that throws, does not answer, or answers wrongly in one field differs from the model. No folder remains."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.conform import bridge as bridges
from highwater.checker.conform.bridge import Bridge, Jars, NoAnswerError, StoppedError
from highwater.checker.conform.fields import new_fields
from tests.conform.test_bridge import SCENARIO
from tests.conform.test_conform import OPERATOR, SMALL, WITHOUT_INDEX, run
from tests.conform.test_walks import MESSAGES, ON_KAFKA
from tests.slow import slow

THROWS = WITHOUT_INDEX.replace(
    "int[] after) { }", 'int[] after) { throw new IllegalStateException("planted"); }'
)
HANGS = WITHOUT_INDEX.replace("int[] after) { }", "int[] after) { while (after.length > 0) { } }")
"""Planted: Kafka fails, or never ends, when it replays a partition with members of the ELR."""
FENCE = {"name": "fenceStaleBroker", "broker": 0, "over": True}


def planted(kafka: Path, tmp_path: Path, text: str) -> Path:
    """The directory of a changed class ``BrokersToElrs``."""
    source, classes = tmp_path / "BrokersToElrs.java", tmp_path / "classes"
    source.write_text(text)
    class_path = ":".join(Jars.found(kafka).class_path)
    subprocess.run(["javac", "-nowarn", "-cp", class_path, "-d", str(classes), str(source)], check=True)
    return classes


@slow("compiles a changed class")
def test_a_kafka_that_throws_differs(kafka: Path, tmp_path: Path) -> None:
    """The report has the path and the exception, for a request, a state behind it, and a step of a cluster."""
    classes = planted(kafka, tmp_path, THROWS.replace("throw", "if (after.length > 0) throw"))
    before = ("--before", str(classes), "--quiet", "--save", str(tmp_path / "saved"))
    status, found, said = run(kafka, tmp_path, SMALL, *before)
    assert (status, "IllegalStateException: planted at " in said) == (1, True), said
    kinds = {(d["request"], *d["differs"]) for d in found["scenarios"][0]["differences"]}
    assert kinds >= {("the state", "Kafka throws"), ("lose_directory", "Kafka throws")}, kinds
    example = found["scenarios"][0]["examples"][0]
    assert (example["kafka"]["error"], example["kafka"]["exception"]) == ("(throws)", "IllegalStateException")
    file = next((tmp_path / "saved").iterdir())
    status, _, said = run(kafka, tmp_path, "--request", str(file), *before[:2])
    assert (status, "Kafka throws IllegalStateException" in said) == (1, True), said
    status, found, said = run(kafka, tmp_path, MESSAGES, *ON_KAFKA, "--sample", "20", *before)
    (first, *_) = found["scenarios"][0]["examples"]
    assert (status, first["differs"]) == (1, ["Kafka throws"]), said
    assert "planted" in first["said"]
    assert first["sentences"]


@slow("compiles a changed class")
def test_a_kafka_that_does_not_answer_differs(
    kafka: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison ends with the path of the request, and leaves no folder."""
    monkeypatch.setattr(bridges, "_MEMORY", str(tmp_path / "memory"))
    (tmp_path / "memory").mkdir()
    monkeypatch.setattr(bridges, "_PATIENCE", 5)
    before = ("--before", str(planted(kafka, tmp_path, HANGS)), "--quiet")
    for arguments in ([SMALL], [MESSAGES, *ON_KAFKA, "--sample", "20"]):
        status, found, said = run(kafka, tmp_path, *arguments, *before)
        (one,) = found["scenarios"]
        assert (status, one["stopped_by"]) == (1, "Kafka does not answer"), said
        assert any(example["differs"] == ["no answer"] for example in one["examples"]), one
        assert "BrokersToElrs.update" in said
    assert not list((tmp_path / "memory").iterdir())


@slow("compiles a changed class")
def test_a_reason_to_stop_ends_a_kafka_that_does_not_answer(
    kafka: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a limit or Ctrl-C there is a new process, which answers."""
    monkeypatch.setattr(bridges, "_GRACE", 0.0)
    jars = Jars.found(kafka, [planted(kafka, tmp_path, HANGS)])
    question = {"explain": {"scenario": SCENARIO, "path": [FENCE, {**FENCE, "broker": 1}], "op": FENCE}}
    with Bridge(jars, patience=600) as bridge:
        first = bridge._process
        bridge.send(question)
        bridge.stop = lambda: "limit_seconds"
        with pytest.raises(StoppedError, match="limit_seconds"):
            bridge.receive()
        assert first.process.poll() is not None
        bridge.ask({"scenario": SCENARIO, "operations": []})
    with Bridge(jars, patience=1) as bridge:
        with pytest.raises(NoAnswerError, match="BrokersToElrs") as wrong:
            bridge.ask(question)
        assert (wrong.value.path, wrong.value.operation) == (0, -1)


@slow("compiles a changed class")
def test_a_kafka_that_does_not_begin_a_cluster_differs(
    kafka: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridges, "_PATIENCE", 1)
    for text, what in ((HANGS, "no answer"), (THROWS, "Kafka throws")):
        always = text.replace("after.length > 0", "true").replace("throw new", "if (true) throw new")
        before = ("--before", str(planted(kafka, tmp_path, always)), "--quiet")
        status, found, said = run(kafka, tmp_path, MESSAGES, *ON_KAFKA, "--sample", "20", *before)
        assert status == 1, said
        (one,) = found["scenarios"][0]["examples"]
        assert (one["step"], one["differs"], one["path"]) == ("the initial state", [what], [])


def _process(of: int) -> tuple[int, Path]:
    """The id of the only process that a process has started, and the folder of its files."""
    (child,) = Path(f"/proc/{of}/task/{of}/children").read_text().split()
    return int(child), Path(Path(f"/proc/{child}/cmdline").read_text().split("\0")[-3])


def _runs(process: int) -> bool:
    """True if the process has not ended; an ended one may wait for its parent."""
    with suppress(OSError):
        return bool(Path(f"/proc/{process}/cmdline").read_bytes())
    return False


@slow("processes of their own, one with a scenario of two million requests")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("hangs", [True, False])
def test_a_signal_ends_conform_and_a_kafka_that_hangs(
    kafka: Path, tmp_path: Path, number: signal.Signals, hangs: bool
) -> None:
    """Kafka's code never ends, or its process is suspended. After Ctrl-C what was compared is reported."""
    target, here = tmp_path / "result.json", tmp_path / "here"
    command = [sys.executable, "-m", "highwater.checker.cli", "conform", "--kafka", str(kafka)]
    command += ["--json", str(target), SMALL if hangs else OPERATOR]
    if hangs:
        text = HANGS.replace("{ while", f'{{ new java.io.File("{here}").mkdir(); while')
        command += ["--before", str(planted(kafka, tmp_path, text))]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr
        if hangs:
            while not here.exists():
                assert running.poll() is None
        else:
            next(line for line in running.stderr if "requests" in line)
        java, folder = _process(running.pid)
        assert folder.exists()
        if not hangs:
            os.kill(java, signal.SIGSTOP)
        running.send_signal(number)
        if number == signal.SIGKILL:
            running.wait()
            os.kill(java, signal.SIGCONT)  # what is suspended cannot end itself
        running.stderr.read()
    while _runs(java):
        time.sleep(0.01)
    assert not folder.exists()
    if number == signal.SIGINT:
        assert running.returncode == 130
        (one,) = json.loads(target.read_text())["scenarios"]
        assert (one["stopped_by"], one["differences"], one["states"] > 0) == ("interrupted", [], not hangs)


def test_a_process_without_a_reader_ends_and_leaves_no_folder(kafka: Path, tmp_path: Path) -> None:
    """If highwater is killed, the input of the process ends: it ends in the middle of a question."""
    with Bridge(Jars.found(kafka)) as bridge:
        command = [str(word) for word in bridge._process.process.args]  # type: ignore[union-attr]
        folder = tmp_path / "folder"
        folder.mkdir()
        with subprocess.Popen(
            [*command[:-2], str(folder), "600"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as running:
            assert running.stdin
            assert running.stdout
            running.stdout.readline()
            setup = {**SCENARIO, "records": 1}
            walks = [
                {"scenario": setup, "operations": [{"name": "none"}]},
                {"walk": [[] for _ in range(2000)]},
            ]
            running.stdin.write("".join(json.dumps(line) + "\n" for line in walks))
            running.stdin.close()
            assert running.wait() == 0
        assert not folder.exists()


def test_every_field_is_compared_or_left_out_with_a_reason(bridge: Bridge) -> None:
    assert list(new_fields(bridge.fields)) == []
    more: dict[str, Any] = {**bridge.fields, "NEW_RECORD": ["a"]}
    more["CLEAR_ELR_RECORD"] = [*more["CLEAR_ELR_RECORD"], "reason"]
    assert list(new_fields(more)) == ["CLEAR_ELR_RECORD.reason", "NEW_RECORD"]


def test_an_answer_has_what_the_heartbeat_says(bridge: Bridge) -> None:
    """A heartbeat extends its session: the broker is fenced only after it."""
    beat: dict[str, Any] = {"name": "brokerHeartbeat", "broker": 0}
    seen = [
        bridge.ask({"explain": {"scenario": SCENARIO, "path": [], "op": {**beat, **fields}}})
        for fields in (
            {"later": -1},
            {"later": 1},
            {"wantShutDown": True},
            {"wantFence": True, "behind": True},
        )
    ]
    assert [answer["answer"] for answer in seen] == [1, 1, 5, 2]
    assert [len(answer["records"]) > 0 for answer in seen] == [False, True, True, True]
