"""A search on a standalone cluster whose workers lack this package."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from highwater.checker.engines.cache import VARIABLE
from tests.slow import slow
from tests.spark.test_survival import command, environment, standalone_cluster

SCENARIO, STATES, DEPTH = "truncation/kip-320", 39_619, 22


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
