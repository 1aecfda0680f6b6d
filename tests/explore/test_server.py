"""``highwater explore`` and its server: requests, local address only, read only, and the session's answers."""

from __future__ import annotations

import doctest
import json
import re
from pathlib import Path as File
from typing import Any

import pytest
from werkzeug.serving import BaseWSGIServer
from werkzeug.test import Client, TestResponse

from highwater.checker.explore.condition import condition
from highwater.checker.explore.server import Application, explorer_page
from highwater.checker.explore.session import Answers, Path
from highwater.checker.scenarios.request import asked
from tests.checker.conftest import ROOT
from tests.command import highwater as run

TOKEN = "a-secret"
HERE = {"base_url": "http://127.0.0.1:8000"}


@pytest.fixture(scope="module")
def client(views: Answers) -> Client:
    return Client(Application(views, explorer_page(views), TOKEN))


def ask(client: Client, what: str, status: int = 200, /, **asked: Any) -> Any:
    answer: TestResponse = client.get(f"/{TOKEN}/{what}", query_string=asked, **HERE)
    assert answer.status_code == status, answer.text
    return json.loads(answer.text)


@pytest.mark.parametrize(
    "path", ["/", "/a-secre/", "/a-secret2/", "/run", "//", "/a-secret/nothing", "/a-secret/../run"]
)
def test_without_the_address_there_is_nothing(client: Client, path: str) -> None:
    assert client.get(path, **HERE).status_code == 404


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8000", "evil.example:8000", ""])
def test_under_another_name_there_is_nothing(client: Client, host: str) -> None:
    answer = client.get(f"/{TOKEN}/", base_url="http://127.0.0.1:8000", headers={"Host": host})
    assert answer.status_code in (400, 404)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_written(client: Client, method: str) -> None:
    assert client.open(f"/{TOKEN}/run", method=method, base_url=HERE["base_url"]).status_code == 405


def test_the_page_loads_nothing_from_elsewhere(client: Client) -> None:
    answer = client.get(f"/{TOKEN}/", **HERE)
    assert answer.status_code == 200
    policy = answer.text.split('Content-Security-Policy" content="')[1].split('"')[0]
    assert policy.startswith("default-src 'none'; connect-src 'self'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert "http://" not in answer.text.replace("http://www.w3.org/2000/svg", "")


def test_a_run(client: Client, views: Answers) -> None:
    path = next(p for seed in range(99) if len((p := views.session.walk(Path(), 6, seed)).steps) == 6)
    said = ask(client, "run", path=str(path), watch="size(quorum.isr)\nnothing")
    assert said["path"] == str(path)
    assert [step["number"] for step in said["run"]["steps"]] == list(range(1, 8))
    sentences = [views.session.model.instances[n].sentence for n in path.steps]
    assert [step["sentence"] for step in said["run"]["steps"][1:]] == sentences
    (good, bad) = said["watched"]
    states = views.session.states(path)
    assert good == ["size(quorum.isr)", True, [views.session.said(s, "size(quorum.isr)") for s in states]]
    assert bad[:2] == ["nothing", False]
    assert "unknown name 'nothing'" in bad[2][0]


def test_nearest_and_random(client: Client, views: Answers) -> None:
    found = ask(client, "nearest", path="0", where="next_record_id == 1")
    assert (
        views.session.said(views.session.states(Path.parse(found["path"]))[-1], "next_record_id == 1")
        == "true"
    )
    assert (
        ask(client, "nearest", path="0", where="next_record_id == 1 and next_record_id == 0")["path"] is None
    )
    assert ask(client, "random", path="0", steps=5, seed=4)["path"] == str(views.session.walk(Path(), 5, 4))


APART = "logs[0].length == 1 and replicas[0].leader_epoch.is_(0) and replicas[1].leader_epoch.is_(1)"


def test_another_rule(client: Client, views: Answers) -> None:
    """The reported difference is that between the steps of the two models."""
    path = views.session.nearest(Path(), APART)[0]
    assert path is not None
    told = {name: ask(client, "rule", path=str(path), name=name) for name in views.request.rules}
    assert any(t["more"] or t["less"] or t["otherwise"] for t in told.values())
    assert all(t["comparable"] for t in told.values())
    fenced = views.switched("fenced_fetch")
    state = views.session.states(path)[-1]
    here = {str(views.session.model.instances[n]) for n in views.session.possible(state)}
    there = {str(fenced.model.instances[n]) for n in fenced.possible(state)}
    assert len(told["fenced_fetch"]["more"]) == len(there - here)
    assert len(told["fenced_fetch"]["less"]) == len(here - there)


@pytest.mark.parametrize(
    ("name", "asked", "said"),
    [
        ("run", {"path": "x"}, "no address"),
        ("run", {"path": "0.9999"}, "there is no step"),
        ("nearest", {"where": "import os"}, "is no condition"),
        ("random", {"steps": "-1"}, "is no number"),
        ("rule", {"name": "nonsense"}, "there is no rule"),
    ],
)
def test_an_invalid_request_gives_an_error(
    client: Client, name: str, asked: dict[str, str], said: str
) -> None:
    assert said in ask(client, name, 400, **asked)["error"]


# --- the conditions in docs/explore -------------------------------------------------------------------


PAGE = (ROOT / "docs" / "explore.md").read_text()


def test_conditions_of_the_page_are_valid() -> None:
    model = asked("replication/large-fencing").model()
    (block,) = re.findall(r"^```text\n(.*?)^```$", PAGE, re.M | re.S)
    texts = block.splitlines()
    assert len(texts) > 5
    for text in texts:
        assert condition(model, text)


def test_its_example_is_true() -> None:
    (block,) = re.findall(r"^```pycon\n(.*?)^```$", PAGE, re.M | re.S)
    examples = doctest.DocTestParser().get_doctest(block, {}, "explore", "explore.md", 0)
    failed, tried = doctest.DocTestRunner().run(examples)
    assert tried
    assert not failed


@pytest.fixture(autouse=True)
def _nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server ends immediately, as by Ctrl-C."""

    def end(self: BaseWSGIServer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(BaseWSGIServer, "serve_forever", end)


def test_the_address_is_printed(trace: File) -> None:
    for options, end in ((("truncation/kip-101",), "/"), (("--trace", trace), ".")):
        found = run("explore", *options, "--no-open")
        assert found.status == 0
        address = found.output.splitlines()[0]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/(#0(\.\d+){8})?", address)
        assert ("#" in address) == (end == ".")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> File:
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
    trace: File, tmp_path: File, arguments: tuple[str, ...], said: str
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
def test_a_run_with_gaps_cannot_be_gone_through(trace: File, tmp_path: File, change: str) -> None:
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
