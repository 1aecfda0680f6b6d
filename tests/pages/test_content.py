"""The content of pages, without a browser, agrees with the interpreter's runs."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.base.text import say
from highwater.checker.engines.native import search
from highwater.checker.report.counterexample import follow_all
from highwater.checker.report.page.chart import Lanes
from highwater.checker.report.page.content import content
from highwater.checker.report.page.run import LIMIT_STATES, Shown, ShownRun, counterexamples, shown_walk
from highwater.checker.scenarios.request import asked
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import Bool, Model, Protocol, State, Struct, action
from highwater.model.language.interpreter import Interpreter
from highwater.traces.runs.replay import RunHistory, replay_run
from highwater.traces.runs.writing import random_walk, write_run
from tests.checker.conftest import _in_the_repository
from tests.command import highwater
from tests.models import scenario_model
from tests.traces.test_page import elements, text_of

LATE = "replication/defect-late-fetch"


@pytest.fixture(scope="module")
def late() -> tuple[ShownRun, dict[str, Any]]:
    model = asked(LATE).model()
    result = search(model, SearchOptions(workers=1))
    (run,) = counterexamples(model, result.violations, follow_all(model, result.violations))
    return run, content("late", [run])["runs"][0]


def test_every_cell_is_the_state_s(late: tuple[ShownRun, dict[str, Any]]) -> None:
    run, data = late
    type_ = run.model.protocol.state
    for step, texts in zip(run.steps, data["states"], strict=True):
        plain = run.model.decode(step.state)
        shown = {
            (label, column): data["texts"][texts[cell]]
            for table in data["tables"]
            for label, _, _, cells in table["rows"]
            for column, cell in enumerate(cells)
        }
        assert shown["brokers.hwm", 0] == str(plain["brokers"][0]["hwm"])
        assert shown["committed", 0] == say(type_.fields["committed"], plain["committed"])
        assert shown["partition.isr", 0] == "{" + ",".join(map(str, plain["partition"]["isr"])) + "}"
    for before, after, one, other in zip(
        data["states"], data["states"][1:], run.steps, run.steps[1:], strict=False
    ):
        assert (before == after) == (one.state == other.state), "a change is seen, wherever it is"
    still = [row for table in data["tables"] for row in table["rows"] if row[2]]
    assert all(
        len({texts[c] for texts in data["states"]}) == 1
        for *_, cells in still
        for c in cells
        if c is not None
    )


def test_enabled_steps_and_refusals_are_the_interpreter_s(late: tuple[ShownRun, dict[str, Any]]) -> None:
    run, data = late
    fates: dict[Any, Any] = {}
    choices, interpreter = data["choices"], Interpreter(run.model)
    for i, step in enumerate(run.steps):
        pairs = choices["states"][i]
        fates |= dict(zip(pairs[::2], pairs[1::2], strict=True))
        assert sorted(n for n, fate in fates.items() if fate <= 0) == interpreter.enabled(step.state)
        for number, instance in enumerate(run.model.instances):
            refused = interpreter.refusals(step.state, instance)
            if refused:
                assert choices["guards"][fates[number] - 1] == refused[0]
            else:
                cut = interpreter.step(step.state, number).cut
                assert (fates[number] < 0) == (cut is not None)
                assert cut is None or choices["bounds"][-fates[number] - 1] == cut
        if i:
            assert run.model.instances[data["steps"][i]["instance"]] is step.instance


def test_a_message_is_an_arrow_from_where_it_is_sent_to_where_it_is_taken(
    late: tuple[ShownRun, dict[str, Any]],
) -> None:
    run, data = late
    lanes = Lanes(run.model.protocol)
    arrows = [a for a in data["chart"]["arrows"] if a["title"]]
    for i, step in enumerate(run.steps):
        under_way = [a for a in arrows if a["start"] <= i and (a["end"] is None or i < a["end"])]
        assert len(under_way) == len(list(lanes.in_flight(run.model.decode(step.state))))
    (late_one,) = [a for a in arrows if (a["title"], a["start"]) == ("Fetch", 5)]
    assert (late_one["from"], late_one["to"], late_one["end"], late_one["fate"]) == (2, 1, 19, "taken")
    within = [a for a in data["chart"]["arrows"] if not a["title"]]
    assert [(a["start"], a["end"], a["fate"]) for a in within] == [(2, 2, "within")], "a producer writes"
    assert [title for title, outside in data["chart"]["lanes"] if outside] == ["clients"]


def test_a_message_that_goes_unread_is_lost() -> None:
    model = scenario_model("replication/large-messages")
    fates: dict[str, set[str]] = {}
    for seed in range(3):
        walk = random_walk(model, 60, seed)
        data = content("", [shown_walk(model, walk.initial, walk.path)])["runs"][0]
        for arrow in data["chart"]["arrows"]:
            if arrow["end"] is not None:
                sentence = re.sub(r"\d", "N", data["steps"][arrow["end"]]["sentence"])
                fates.setdefault(sentence, set()).add(arrow["fate"])
    assert fates["broker N's AlterPartition, or its answer, is lost"] == {"lost"}
    for taken in ("leader N answers the fetch of broker N", "broker N takes the answer to its fetch"):
        assert fates[taken] == {"taken"}


def test_bands_and_logs_are_the_state_s(late: tuple[ShownRun, dict[str, Any]]) -> None:
    run, data = late
    band, belief = data["chart"]["bands"]
    assert (band["first"], belief["title"]) == (1, "believes that it leads")
    for i, step in enumerate(run.steps):
        plain = run.model.decode(step.state)
        for b, broker in enumerate(plain["brokers"]):
            sign = band["signs"][i][b]
            down = broker["status"] in ("STOPPED", "CRASHED")
            assert (sign == "down") == down
            assert (sign == "leader") == (plain["partition"]["leader"] == b and not down)
            assert (sign == "elr") == (b in plain["partition"]["elr"] and not down)
            assert belief["signs"][i][b] == ("leader" if broker["view"]["leader"] == b else "")
            log = data["chart"]["logs"][b]
            records, marks = log["states"][i]
            assert records == [[str(r["value"]), str(r["epoch"])] for r in broker["log"]]
            assert marks == [["HWM", broker["hwm"]]]
    assert {s for signs in band["signs"] for s in signs} >= {
        "leader",
        "isr",
        "elr",
        "down",
        "fenced",
        "known",
    }


def test_a_request_that_stays_has_an_arrow_to_each_receiver() -> None:
    """The arrow starts at the controller's decision, even if a request of another epoch was sent between."""
    model = asked("truncation/truncate-to-hwm").model()
    result = search(model, SearchOptions(workers=1, stop_at_first=True))
    run, *_ = counterexamples(model, result.violations, follow_all(model, result.violations))
    data = content("", [run])["runs"][0]
    said = [s["sentence"] for s in data["steps"]]
    taken = {
        said[a["end"]]: (said[a["start"]], a["fate"], data["chart"]["lanes"][a["to"]][0])
        for a in data["chart"]["arrows"]
        if a["title"] == "LeaderAndIsr"
    }
    decided = [text for text in said if text.startswith("the controller")]
    assert len(decided) == 2
    for text, (sent, fate, receiver) in taken.items():
        epoch = int(text[-1])
        assert (sent, fate) == (decided[epoch], "taken")
        assert text.startswith(receiver)
    assert len(taken) == sum("becomes" in text for text in said) == 3
    (record,) = (a for a in data["chart"]["arrows"] if a["title"] == "record")
    assert (record["start"], record["fate"]) == (record["end"], "within")


def test_each_outcome_of_a_difference_has_its_own_end_of_a_message(
    late: tuple[ShownRun, dict[str, Any]],
) -> None:
    """One model takes the last step; the other refuses it, and the message stays in flight."""
    run, _ = late
    taking = next(i for i, step in enumerate(run.steps) if step.sentence.startswith("leader 0 answers"))
    taken, before = run.steps[taking], run.steps[taking - 1]
    refused = replace(taken, state=before.state, instance=None, note="refused")

    def ends(*outcomes: Shown) -> set[tuple[int | None, str]]:
        shown = ShownRun("", "", (*run.steps[:taking], *outcomes), sides=("a", "b"))
        arrows = content("", [shown])["runs"][0]["chart"]["arrows"]
        return {
            (a["end"], a["fate"])
            for a in arrows
            if a["title"] == "Fetch" and a["end"] in (taking, taking + 1, None)
        }

    assert (taking, "taken") in ends(taken, refused)
    assert (taking + 1, "taken") in ends(refused, taken)
    assert {(taking, "taken"), (taking + 1, "taken")} <= ends(taken, taken)
    assert (None, "under way") in ends(refused, refused)


class Switch(Protocol):
    """A light that is switched on and off: a protocol without a drawing, with endless runs."""

    name = "switch"

    def define(self) -> Struct:
        return Struct("State", on=Bool)

    def initial(self) -> list[dict[str, Any]]:
        return [{"on": False}]

    @action(says="the light is switched")
    def switch(self, s: State) -> None:
        s.next.on = ~s.on


def test_a_long_walk_omits_and_counts_its_first_states() -> None:
    model = Model(Switch())
    run = shown_walk(model, model.initial[0], (0,) * (LIMIT_STATES + 9))
    data = content("", [run])["runs"][0]
    assert (data["leftOut"], len(data["steps"])) == (10, LIMIT_STATES)
    assert (data["steps"][0]["number"], data["steps"][0]["base"], data["steps"][1]["base"]) == (11, None, 0)
    assert data["chart"]["lanes"] == [["the system", False]]


def test_the_page_needs_nothing_and_allows_nothing_but_itself(written: Callable[..., Path]) -> None:
    file = written("check", LATE, "--workers", "1")
    assert file.stat().st_size < 1_000_000
    found = elements(file)
    (policy,) = [a["content"] for tag, a in found.tags if a.get("http-equiv") == "Content-Security-Policy"]

    def hash_of(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    (script,) = [text for tag, attrs, text in found.texts if tag == "script" and not attrs]
    (style,) = [text for tag, _, text in found.texts if tag == "style"]
    assert policy == (
        f"default-src 'none'; style-src {hash_of(style)}; script-src {hash_of(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    assert not [a for tag, a in found.tags if "src" in a or ("href" in a and tag != "a") or "style" in a]
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", script
    )


def test_hostile_texts_come_back_as_they_were(written: Callable[..., Path], hostile: str) -> None:
    file = written("check", hostile)
    tags = [tag for tag, _ in elements(file).tags]
    assert tags.count("script") == 2
    assert not {"img", "b", "i"} & set(tags)
    text = text_of(file, "script", type="application/json", id="data")
    assert not set("<>&") & set(text)
    data = json.loads(text)
    assert data["title"] == "</script><script>alert(6)</script> {{data}} {{policy}}"
    assert data["runs"][0]["source"].startswith("</script><script>alert(1)</script>")
    assert "</td><script>alert(4)</script>" in data["runs"][0]["choices"]["guards"]


# --- ``--html`` of every command that shows runs ------------------------------------------------------


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
    meta, *lines = [json.loads(line) for line in trace.read_text().splitlines()]
    if wrong:
        lines[3]["changes"] = {"next_record_id": 1}
    if hidden:
        del lines[3]
        meta["meta"]["hidden_steps"] = 1
        lines = [{**line, "step": number} for number, line in enumerate(lines)]
    trace.write_text("".join(json.dumps(line) + "\n" for line in (meta, *lines)))
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
