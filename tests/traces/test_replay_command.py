from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.commands import replay as replay_command
from highwater.traces.inputs import Input
from tests.command import Run, highwater
from tests.traces.kafka.made import CLUSTERS_4_2, needs_clusters_4_2
from tests.traces.runs.made import bad_run, good_run, write


def run(*arguments: object) -> Run:
    return highwater("replay", *arguments)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return write(tmp_path / "good.ndjson", good_run())


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    return write(tmp_path / "bad.ndjson", bad_run())


def test_a_run_that_conforms(good: Path) -> None:
    result = run(good)
    assert result.status == 0
    assert result.output.startswith("No problem found: every operation conforms to ")
    assert f"  input: {good}\n" in result.output
    assert "1 input, 12 records: no problem found" in result.output


def test_a_step_that_does_not_conform(good: Path, bad: Path) -> None:
    result = run(good, bad)
    assert result.status == 1
    assert "nearest: follower_fetch(follower=2, leader=1)" in result.output
    assert "next_record_id: expected 2, recorded 0" in result.output


@pytest.mark.parametrize("kept", [-30, 100, 5])
def test_a_compressed_file_that_is_cut_off_is_skipped(
    good: Path, bad: Path, tmp_path: Path, kept: int
) -> None:
    """Replay continues with the other inputs."""
    cut = tmp_path / "a-cut.gz"
    cut.write_bytes(gzip.compress(good.read_bytes())[:kept])
    result = run(cut, good)
    assert result.status == 3
    assert f"  input: {good}\n" in result.out
    assert result.err == f"highwater: skipped {cut}: the compressed file is cut off\n"
    assert run(cut, good, bad).status == 1


def test_a_directory_means_every_file_below_it(good: Path, bad: Path, tmp_path: Path) -> None:
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "more.gz").write_bytes(gzip.compress(good.read_bytes()))
    result = run(tmp_path, "--quiet")
    assert result.status == 1
    assert result.output.startswith("3 inputs, ")
    assert result.output.count("\n") == 1


def test_rules_and_profile_can_be_switched(good: Path) -> None:
    assert run(good, "--rule", "fenced_shrink=on").status == 0
    assert run(good, "--profile", "kip_320").status == 1
    assert run(good, "--profile", "kip_279").status == 0


def test_json(bad: Path, tmp_path: Path) -> None:
    (shown,) = json.loads(run(bad, "--json", "-").output)
    target = tmp_path / "out.json"
    assert run(bad, "--json", target).status == 1
    (written,) = json.loads(target.read_text())
    assert {**shown, "seconds": 0} == {**written, "seconds": 0}
    assert shown["unexplained_count"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere: there is no such file or directory"),
        (["{good}", "--rule", "gravity=on"], "unknown rule of truncation 'gravity'"),
        (["{good}", "--rule", "fenced_fetch"], "write NAME=on or NAME=off"),
        (["{good}", "--profile", "kafka_9"], "unknown profile of truncation 'kafka_9'"),
        (["{good}", "--json", "/nowhere/out.json"], "cannot be written"),
        (["{cut}"], "cut.gz: the compressed file is cut off"),
        (["{text}"], "text: not a file that replay reads"),
        ([], "Missing argument"),
    ],
)
def test_bad_requests_are_one_line(good: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "cut.gz").write_bytes(gzip.compress(good.read_bytes())[:-30])
    (tmp_path / "text").write_text("hello \x1b[31m\n")
    names = {"good": good, "cut": tmp_path / "cut.gz", "text": tmp_path / "text"}
    result = run(*(a.format(**names) for a in arguments))
    assert result.status == 2
    assert message in result.err
    assert "Traceback" not in result.output
    assert len(result.err.strip().splitlines()) == 1


def test_interrupted_with_what_was_found(good: Path, bad: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replay_input = vars(replay_command)["replay_input"]

    def stop_at_the_second(found: Input, *rest: Any) -> Any:
        if found.path == bad:
            raise KeyboardInterrupt
        return replay_input(found, *rest)

    monkeypatch.setattr(replay_command, "replay_input", stop_at_the_second)
    result = run(good, bad)
    assert result.status == 130
    assert f"  input: {good}\n" in result.output
    assert "interrupted: 1 input, " in result.output


@needs_clusters_4_2
def test_recorded_clusters_are_replayed_by_one_command(tmp_path: Path) -> None:
    page, target = tmp_path / "page.html", tmp_path / "result.json"
    result = run(
        CLUSTERS_4_2 / "deadleader-elr",
        CLUSTERS_4_2 / "restarts-elr",
        "--html",
        page,
        "--json",
        target,
        "--quiet",
    )
    assert result.status in (0, 1)
    reports = json.loads(target.read_text())
    assert len(reports) == 2, "a log and its dumps are one input"
    assert all("skipped: a dump of this metadata log" in r["notes"][0] for r in reports)
    assert all(r["unexplained_count"] == 0 and r["figures"]["broker logs"] for r in reports)
    assert not any(r["doubts"] or r["damage"] or r["unreliable_count"] for r in reports)
    assert page.stat().st_size > 100_000
