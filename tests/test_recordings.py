"""If ``HIGHWATER_NEEDS_RECORDINGS`` is set, a run of the tests without recordings fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from highwater.checker.engines import cache
from tests import conftest, kafka_release, recordings

ROOT = Path(__file__).parents[1]
ASKED = {recordings.REQUIRED: "1"}


def test_missing_recordings_are_listed(tmp_path: Path) -> None:
    recordings.refuse_without({}, tmp_path)
    for name in recordings.FOLDERS[1:]:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a recording").touch()
    (tmp_path / recordings.FOLDERS[0]).mkdir(parents=True)  # an empty folder
    with pytest.raises(pytest.UsageError, match=r"REC.* missing in .*: traces/kafka-4.2/clusters$"):
        recordings.refuse_without(ASKED, tmp_path)
    recordings.refuse_without({}, tmp_path)
    (tmp_path / recordings.FOLDERS[0] / "a recording").touch()
    recordings.refuse_without(ASKED, tmp_path)


def test_a_run_without_them_fails(tmp_path: Path) -> None:
    """In a tree without recordings, the test is skipped, or, with the variable set, the run is refused."""
    tree = tmp_path / "tree" / "tests"
    tree.mkdir(parents=True)
    for name in ("__init__.py", "recordings.py"):
        (tree / name).write_bytes((ROOT / "tests" / name).read_bytes())
    (tree / "conftest.py").write_text(
        "from tests import recordings\ndef pytest_configure(config):\n    recordings.refuse_without()\n"
    )
    (tree / "test_one.py").write_text(
        "from tests import recordings\npytestmark = recordings.needs('peers')\ndef test(): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", str(tree)]
    for environment, status, said in (
        ({}, 0, "shared/peers is not beside the repository"),
        (ASKED, 4, f"{recordings.REQUIRED} is set, and these recordings are missing"),
    ):
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, said in done.stdout + done.stderr) == (status, True), done


def test_the_test_run_checks_for_recordings(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(recordings, "refuse_without", lambda: asked.append(True))
    conftest.pytest_configure(pytestconfig)
    assert asked == [True]


def test_continuous_integration_requires_recordings_beside_the_clone() -> None:
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert f"if [ -d ../shared ]; then\n  export {recordings.REQUIRED}=1" in text
    assert text.index(recordings.REQUIRED) < text.index("make test")
    with pytest.raises(ValueError, match="is none of"):
        recordings.folder("traces")


@pytest.mark.parametrize("is_required", [False, True])
def test_without_kafka_its_tests_are_skipped_or_fail(
    is_required: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(kafka_release.REQUIRED, "1" if is_required else "")
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:{Path(sys.executable).parent}")
    outcome = pytest.fail.Exception if is_required else pytest.skip.Exception
    with pytest.raises(outcome, match=r"need no-program on the path, the Python package no_package$"):
        kafka_release.require("no-program", ["no_package"])
    with pytest.raises(outcome, match=r"need javac on the path$"):
        kafka_release.kafka(None)
    (tmp_path / "javac").touch(mode=0o755)
    with pytest.raises(outcome, match="there is no mvn on the path"):
        kafka_release.kafka(None)
    assert kafka_release.kafka(str(tmp_path)) == tmp_path
    kafka_release.require("javac", ["pytest"])
