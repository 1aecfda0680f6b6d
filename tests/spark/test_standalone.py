"""Searches on a standalone cluster: workers that lack this package, and no workers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from highwater.checker.engines.cache import VARIABLE
from tests.slow import slow

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")
if shutil.which("java") is None:
    pytest.skip("Java is not installed", allow_module_level=True)

SCENARIO, STATES, DEPTH = "truncation/kip-320", 39_619, 22


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "highwater", "check", *map(str, arguments), "--engine", "spark"]


def environment(**changes: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **changes}


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


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """A Python with the libraries but without this project, as on an executor's machine."""
    site = tmp_path / "site"
    site.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "highwater" not in entry.name.lower() and entry.suffix != ".pth":
            (site / entry.name).symlink_to(entry)
    python = tmp_path / "python"
    base = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{site}:$PYTHONPATH" exec "{base}" "$@"\n')
    python.chmod(0o755)
    return python


@slow("starts a cluster; the fast test_pieces.py traces a protocol from the same archive")
def test_a_standalone_cluster_gets_the_package(tmp_path: Path, bare_python: Path) -> None:
    """The executors compile without a cache, reading the package from the archive."""
    absent = subprocess.run([bare_python, "-c", "import highwater"], capture_output=True, cwd=tmp_path)
    assert b"No module named 'highwater'" in absent.stderr
    with standalone_cluster(tmp_path, 1) as master:
        done = subprocess.run(
            [
                *command(
                    SCENARIO, "--json", "-", "--checkpoint", tmp_path / "levels", "--spark-master", master
                )
            ],
            env=environment(PYSPARK_PYTHON=str(bare_python), **{VARIABLE: str(tmp_path / "code")}),
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)
    assert (found["distinct_states"], found["depth"]) == (STATES, DEPTH)
