"""Output files: an unwritable target fails before the search, and a file is replaced only when complete."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from highwater.checker.base.files import JsonOutput, refuse_unwritable, write_text, written
from highwater.checker.base.problems import InputError


@pytest.mark.parametrize(("name", "said"), [(".", "is a directory"), ("nowhere/a.json", "cannot be written")])
def test_an_invalid_target_is_refused_immediately(tmp_path: Path, name: str, said: str) -> None:
    target = str(tmp_path / name)
    for ask in (lambda: JsonOutput(target), lambda: refuse_unwritable("--json", target)):
        with pytest.raises(InputError) as refused:
            ask()
        assert str(refused.value) == f"--json {target}: {said}"


def test_a_read_only_file_in_a_writable_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``os.access`` is not enough: for root everything is writable."""
    target = tmp_path / "a.json"
    target.touch()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != target)
    with pytest.raises(InputError, match="cannot be written"):
        JsonOutput(str(target))


def test_a_file_is_replaced_only_when_complete(tmp_path: Path) -> None:
    target = tmp_path / "a.json"
    target.write_text("before")

    def fails(wrong: BaseException) -> None:
        with written("--html", target) as beside:
            beside.write_text("half")
            assert target.read_text() == "before"
            raise wrong

    with pytest.raises(InputError) as refused:
        fails(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert str(refused.value) == f"--html {target}: No space left on device"
    with pytest.raises(BrokenPipeError):  # the reader went away: not the target's fault
        fails(BrokenPipeError())
    assert target.read_text() == "before"
    write_text("--html", target, "after\n")
    assert target.read_text() == "after\n"
    assert [*tmp_path.iterdir()] == [target]


def test_standard_output_is_for_the_result_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = JsonOutput("-")
    out.say("a line for people")
    out.write({"a": "ä"})
    assert json.loads(capsys.readouterr().out) == {"a": "ä"}
    for target in (None, str(tmp_path / "a.json")):
        out = JsonOutput(target)
        out.say("a line for people")
        out.write({"a": "ä"})
        assert capsys.readouterr().out == "a line for people\n"
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == '{\n  "a": "ä"\n}\n'


def test_quiet_leaves_notes_and_progress_out(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet, said in ((False, ("a note\na line\n", "far\n")), (True, ("a line\n", ""))):
        out = JsonOutput(None, quiet=quiet)
        out.note("a note")
        out.progress("far")
        out.say("a line")
        assert tuple(capsys.readouterr()) == said
