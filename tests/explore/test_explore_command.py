"""`highwater explore`: invalid requests are refused, and a given run is opened."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from werkzeug.serving import BaseWSGIServer

from tests.command import highwater as run


@pytest.fixture(autouse=True)
def _nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server ends immediately, as by Ctrl-C."""

    def end(self: BaseWSGIServer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(BaseWSGIServer, "serve_forever", end)


def test_the_address_is_printed(trace: Path) -> None:
    for asked, end in ((("truncation/kip-101",), "/"), (("--trace", trace), ".")):
        found = run("explore", *asked, "--no-open")
        assert found.status == 0
        address = found.output.splitlines()[0]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/(#0(\.\d+){8})?", address)
        assert ("#" in address) == (end == ".")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("explore") / "run.ndjson"
    found = run("check", "truncation/truncate-to-hwm", "--quiet", "--trace-out", file)
    assert found.status == 0, found.output
    return file


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name a SCENARIO, or a run with --trace"),
        (("nothing/there",), "unknown scenario"),
        (("truncation/kip-101", "--trace", "{trace}"), "name a SCENARIO, or a run with --trace"),
        (("--trace", "{trace}", "--set", "replicas=2"), "the run has its own parameters and rules"),
        (("--trace", "nowhere"), "cannot be read"),
        (("--trace", "{other}"), "other.ndjson:3: nothing("),
    ],
)
def test_bad_requests_end_with_a_line(
    trace: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    lines = trace.read_text().splitlines()
    other = tmp_path / "other.ndjson"
    other.write_text(
        "\n".join([*lines[:2], re.sub('"action": "[a-z_]+"', '"action": "nothing"', lines[2]), ""])
    )
    found = run("explore", *(a.format(trace=trace, other=other) for a in arguments), "--no-open")
    assert found.status == 2
    assert said in found.output
    assert len(found.output.splitlines()) == 1


@pytest.mark.parametrize("change", ['"start": "given"', '"hidden_steps": 2'])
def test_a_run_with_gaps_cannot_be_gone_through(trace: Path, tmp_path: Path, change: str) -> None:
    text = trace.read_text()
    key = change.split(":")[0]
    text = (
        re.sub(rf"{key}: [^,}}]+", change, text, count=1)
        if key in text
        else text.replace('"meta": {', f'"meta": {{{change}, ', 1)
    )
    other = tmp_path / "gaps.ndjson"
    other.write_text(text)
    found = run("explore", "--trace", other, "--no-open")
    assert found.status == 2
    assert "only a run from an initial state on, without hidden steps, can be explored" in found.output
