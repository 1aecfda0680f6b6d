"""If ``HIGHWATER_NEEDS_RECORDINGS`` is set, a run of the tests without recordings fails."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.checker.engines import cache
from tests import kafka_release, recordings
from tests.slow import slow, without_reason

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


# --- a slow mark needs a reason, and tests are grouped by file ----------------------------------------


def item(name: str, *marks: pytest.MarkDecorator) -> Any:
    return SimpleNamespace(nodeid=name, iter_markers=lambda kind: [m.mark for m in marks if m.name == kind])


GOOD = [item("a"), item("b", slow("a whole search of each")), item("c", pytest.mark.skip)]
WRONG = [item("d", pytest.mark.slow), item("e", slow("")), item("f", slow("takes long"))]


def test_marks_without_a_reason_are_found() -> None:
    assert without_reason(GOOD + WRONG) == ["d", "e", "f"]
