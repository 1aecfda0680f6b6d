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
from highwater.checker.report.page.content import content
from highwater.checker.report.page.lanes import Lanes
from highwater.checker.report.page.run import LIMIT_STATES, Shown, ShownRun, counterexamples, shown_walk
from highwater.checker.scenarios.request import asked
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import Bool, Model, Protocol, State, Struct, action
from highwater.model.language.interpreter import Interpreter
from highwater.traces.runs.writing import random_walk
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
