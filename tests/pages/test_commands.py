"""``--html`` of every command that shows runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.engines.native import search
from highwater.checker.scenarios.search import SearchOptions
from highwater.traces.runs.replay import RunHistory, replay_run
from highwater.traces.runs.writing import write_run
from tests.checker.conftest import _in_the_repository
from tests.command import highwater
from tests.models import scenario_model
from tests.traces.test_page import text_of

__all__ = ["_in_the_repository", "highwater"]
REGISTER = "docs/examples/register-hasty.toml"


def runs_of(page: Path) -> list[dict[str, Any]]:
    return list(json.loads(text_of(page, "script", type="application/json", id="data"))["runs"])


def test_check_writes_its_counterexamples(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = highwater("check", REGISTER, "--engine", "interpreter", "--html", page)
    assert (done.status, f"--html {page}: 1 run to step through" in done.out) == (0, True)
    (run,) = runs_of(page)
    assert run["title"] == "no_acknowledged_write_is_lost is violated"
    assert [s["sentence"] for s in run["steps"]][-1] == "the leader dies and replica 1 takes over"
    assert run["why"]["3"]["leaves"] == [
        [
            "stored[1] >= acknowledged",
            False,
            [["stored[1]", "0"], ["leader", "1"], ["acknowledged", "1"]],
            False,
        ]
    ]


def test_where_there_is_no_run_there_is_no_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = highwater("check", "docs/examples/register.toml", "--engine", "interpreter", "--html", page)
    assert f"--html {page}: not written, as no violation found" in done.out
    assert not page.exists()


@pytest.mark.parametrize("command", ["check", "simulate", "prove", "diff", "gate", "replay"])
def test_an_unwritable_page_is_refused_immediately(command: str) -> None:
    asked = {"diff": [REGISTER, "--rule", "wait_for_all=on"], "gate": [], "replay": ["README.md"]}
    done = highwater(command, *asked.get(command, [REGISTER]), "--html", "nowhere/page.html")
    assert (done.status, done.out) == (2, "")
    assert "--html nowhere/page.html: cannot be written" in done.err


def test_a_page_is_about_one_scenario(tmp_path: Path) -> None:
    done = highwater("check", REGISTER, "truncation/kip-101", "--html", tmp_path / "page.html")
    assert (done.status, "name one scenario" in done.err) == (2, True)


def test_simulate_shows_a_walk_where_nothing_is_violated(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    asked = ("--walks", 3, "--depth", 12, "--html", page)
    assert highwater("simulate", "docs/examples/register.toml", *asked).status == 0
    (run,) = runs_of(page)
    assert run["name"] == ""
    assert run["title"] == f"A walk of {len(run['steps']) - 1} steps"
    highwater("simulate", REGISTER, "--walks", 500, "--depth", 12, "--html", page)
    assert runs_of(page)[0]["name"] == "no_acknowledged_write_is_lost"


def test_prove_writes_the_solver_s_runs(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert highwater("prove", REGISTER, "--depth", 5, "--html", page).status == 0
    assert [len(r["steps"]) for r in runs_of(page)] == [4]
    assert highwater("prove", REGISTER, "--induction", "--html", page).status == 1
    titles = {r["title"]: r for r in runs_of(page)}
    run = titles["fail_over does not preserve no_acknowledged_write_is_lost"]
    assert run["steps"][0]["sentence"] == "a state in which all invariants hold"
    assert list(run["why"]) == ["1"]


def test_diff_shows_both_outcomes_and_the_guard_that_refuses_one(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert highwater("diff", REGISTER, "--rule", "wait_for_all=on", "--html", page).status == 1
    (run,) = runs_of(page)
    assert run["sides"] == ["wait_for_all off", "wait_for_all on"]
    assert run["steps"][-1]["note"] == "Cannot be taken: refused by “every live replica has it”."
    assert run["states"][2] != run["states"][1] == run["states"][3]
    assert [(s["number"], s["base"]) for s in run["steps"]] == [(1, None), (2, 0), (3, 1), (4, 1)]


def replayed(tmp_path: Path, *, wrong: bool = False, hidden: bool = False) -> dict[str, Any]:
    """Replay a trace with a wrong line (``wrong``) or a missing line (``hidden``); returns its page's data."""
    model = scenario_model("truncation/truncate-to-hwm")
    violation = search(model, SearchOptions(workers=1)).violations[0]
    trace, page = tmp_path / "run.jsonl", tmp_path / "page.html"
    write_run(trace, model, violation.initial, violation.path, profile="truncate_to_hwm", whole=hidden)
    meta, *lines = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
    if wrong:
        lines[3]["changes"] = {"next_record_id": 1}
    if hidden:
        del lines[3]
        meta["meta"]["hidden_steps"] = 1
        lines = [{**line, "step": number} for number, line in enumerate(lines)]
    trace.write_text("".join(json.dumps(line) + "\n" for line in (meta, *lines)), encoding="utf-8")
    done = highwater("replay", trace, "--html", page)
    assert done.status == 1, done.out + done.err
    (run,) = runs_of(page)
    return run


def test_replay_shows_the_run_that_a_trace_was(tmp_path: Path) -> None:
    run = replayed(tmp_path)
    assert (run["title"], run["subtitle"].endswith("run.jsonl: explained")) == ("weak_isr is violated", True)
    assert [s["instance"] is not None for s in run["steps"]] == [False] + [True] * 8
    assert all(s["note"] == "" for s in run["steps"])
    assert (run["falseAt"], list(run["why"])) == ([8], ["8"])


def test_replay_shows_a_line_that_nothing_explains(tmp_path: Path) -> None:
    run = replayed(tmp_path, wrong=True)
    first = next(s for s in run["steps"] if s["note"])
    assert first["sentence"] == "line 5: nothing explains it"
    assert "line 5, step 3: does not conform" in first["note"]
    assert first["instance"] is None


def test_replay_shows_the_steps_that_it_had_to_suppose(tmp_path: Path) -> None:
    run = replayed(tmp_path, hidden=True)
    assert [i for i, s in enumerate(run["steps"]) if s["note"]] == [3]
    assert run["steps"][3]["note"] == "Not observed: supposed before line 5."
    assert len(run["steps"]) == 9


def test_a_history_keeps_no_more_than_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from highwater.traces.runs import replay as module

    monkeypatch.setattr(module, "KEPT_STATES", 2)
    model = scenario_model("truncation/truncate-to-hwm")
    write_run(tmp_path / "run", model, model.initial[0], (), profile="truncate_to_hwm")
    history = RunHistory()
    replay_run(tmp_path / "run", history=history)
    for line in (3, 4):
        history.add(module.Taken(line, history.lines[0].after))
    assert (len(history.lines), history.left_out) == (2, 1)
