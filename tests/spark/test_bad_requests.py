"""Without Spark, Java, a master or a checkpoint, the command prints one line and exits with status 2."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.command import highwater

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

SCENARIO = "truncation/kip-101"


@pytest.fixture(autouse=True)
def _no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that the process has started no session yet."""
    from highwater.checker.engines.spark import session

    monkeypatch.setattr(session, "_current", None)


def refused(*arguments: object) -> str:
    run = highwater("check", SCENARIO, "--engine", "spark", *arguments)
    assert run.status == 2
    assert run.out == ""
    assert run.err.count("\n") == 1
    return run.err


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "needs Java 17 or newer: no java on the path" in refused()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert f"JAVA_HOME is {tmp_path}, without bin/java" in refused()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Spark's pipe to it
def test_a_java_that_does_not_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "Spark does not start" in refused("--spark-master", "local[1]")


def test_a_master_that_is_not_there(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    said = refused("--spark-master", f"spark://127.0.0.1:{port}", "--checkpoint", tmp_path / "c")
    assert f"--spark-master spark://127.0.0.1:{port}: no master there" in said
    assert "write local[N], spark://HOST:PORT" in refused(
        "--spark-master", "mesos://here", "--checkpoint", tmp_path / "d"
    )


def test_a_cluster_needs_a_directory_that_all_share() -> None:
    assert "name a --checkpoint directory" in refused("--spark-master", "spark://127.0.0.1:7077")


def test_resume_needs_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "something").write_text("else")
    assert "no checkpoint there" in refused("--checkpoint", tmp_path, "--resume")
    assert "name the --checkpoint" in refused("--resume")


def test_a_checkpoint_is_of_one_scenario(tmp_path: Path) -> None:
    run = highwater("check", "--engine", "spark", "--checkpoint", tmp_path)
    assert run.status == 2
    assert "name one scenario" in run.err
