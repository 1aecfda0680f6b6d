"""The pytest fixture: it passes what is explained, and fails with the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.traces.recorded import made, write

pytest_plugins = ["pytester"]

TEST = """
    pytest_plugins = ["traces.pytest_plugin"]

    def test_recorded(replay):
        report = replay({path!r})
        assert report.operations > 10
"""


def run(pytester: pytest.Pytester, path: Path, text: str = TEST) -> pytest.RunResult:
    pytester.makeconftest('pytest_plugins = ["traces.pytest_plugin"]')
    pytester.makepyfile(
        text.replace('    pytest_plugins = ["traces.pytest_plugin"]\n', "").format(path=str(path))
    )
    return pytester.runpytest_inprocess("-p", "no:cacheprovider")


def test_what_is_explained_passes(pytester: pytest.Pytester, tmp_path: Path) -> None:
    run(pytester, write(tmp_path / "good.ndjson", made().lines)).assert_outcomes(passed=1)


def test_what_is_not_explained_fails_with_the_report(pytester: pytest.Pytester, tmp_path: Path) -> None:
    lines = made().lines
    lines[-1]["error"] = "NONE"
    result = run(pytester, write(tmp_path / "bad.ndjson", lines))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*1 line not explained*", "*refused by*broker epoch*"])


def test_a_file_that_is_no_trace_is_an_error_of_the_test(pytester: pytest.Pytester, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello\n")
    result = run(pytester, tmp_path / "text")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*TraceError*neither a metadata log*"])
