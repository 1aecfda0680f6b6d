"""Kills, missing files and full disks: whole commands on local clusters. All slow."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.slow import slow, whole_only

pytestmark = slow("each test starts a cluster")

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")
if shutil.which("java") is None:
    pytest.skip("Java is not installed", allow_module_level=True)

LARGE = ("truncation/kip-320", "--set", "replicas=4", "--set", "max_leader_epoch=2", "--set", "max_records=1")
STATES = 6_035_513


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "highwater", "check", *map(str, arguments), "--engine", "spark"]


def environment(**changes: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **changes}


def wait_for(what: Callable[[], object], process: subprocess.Popen[str], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not what():
        if process.poll() is not None:
            pytest.fail(f"it ended too soon: {process.communicate()}")
        assert time.monotonic() < end, "nothing happens"
        time.sleep(0.02)


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*arguments),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def descendants(pid: int) -> Iterator[tuple[int, str]]:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            try:
                line = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            yield child, line
            yield from descendants(child)


def test_an_interrupted_search_gives_partial_results(tmp_path: Path) -> None:
    levels, file = tmp_path / "levels", tmp_path / "result.json"
    process = start(*LARGE, "--spark-master", "local[2]", "--checkpoint", levels, "--json", file)
    wait_for(lambda: (levels / "level-00014.json").exists(), process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
    _, said = process.communicate(timeout=600)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    (one,) = json.loads(file.read_text())
    assert one["stopped_by"] == "interrupted"
    last = json.loads(sorted(levels.glob("level-*.json"))[-1].read_text().split("\n")[0])
    assert one["distinct_states"] == last["totals"]["distinct_states"] < STATES


def answers(port: int, seconds: float = 120) -> None:
    """Wait until a process listens at the port."""
    until = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


@contextmanager
def standalone_cluster(directory: Path, workers: int) -> Iterator[str]:
    """A master and some workers of one core each."""
    import pyspark

    home = Path(pyspark.__file__).parent
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    base = [str(home / "bin" / "spark-class")]
    deploy = "org.apache.spark.deploy"
    master = f"spark://127.0.0.1:{port}"
    lines = [[f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    for number in range(workers):
        place = ["--host", "127.0.0.1", "--webui-port", "0", "--work-dir", str(directory / f"work-{number}")]
        lines.append([f"{deploy}.worker.Worker", "--cores", "1", "--memory", "2g", *place, master])
    plain = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    running = []
    with (directory / "standalone.log").open("wb") as log:
        try:
            for line in lines:
                running.append(
                    subprocess.Popen(
                        base + line,
                        env={**plain, "SPARK_HOME": str(home)},
                        stdout=log,
                        stderr=log,
                        cwd=directory,
                        start_new_session=True,
                    )
                )
                if len(running) == 1:
                    answers(port)
            yield master
        finally:
            for process in reversed(running):
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(timeout=60)


@whole_only
def test_a_cluster_without_workers_is_one_line(tmp_path: Path) -> None:
    with standalone_cluster(tmp_path, 0) as master:
        line = command(*LARGE, "--spark-master", master, "--checkpoint", tmp_path / "levels", "--quiet")
        done = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert "no executor came within 60 seconds" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    """The file system has 12 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        line = command(*LARGE, "--spark-master", "local[2]", "--checkpoint", place / "levels", "--quiet")
        done = subprocess.run(line, env=environment(), capture_output=True, text=True)
    finally:
        subprocess.run(["umount", str(place)], check=True)
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert done.stderr.count("\n") == 1
