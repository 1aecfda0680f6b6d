"""Baselines: a written baseline reads back equal; an invalid one gives one line with file and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.checker.base.problems import InputError
from highwater.checker.comparing.gate import baseline as baselines
from highwater.checker.comparing.gate.baseline import Baseline, EntryState, Selection, compare
from highwater.checker.comparing.gate.entries import PROOF, SCENARIO, Facts, GateEntry, Ran
from highwater.checker.scenarios import scenario_files

FACTS: Facts = {
    "verdict": "holds",
    "complete": True,
    "distinct_states": 12,
    "depth": 4,
    "graph": "aa",
    "generated_states": 30,
    "actions": {"up": 7, "down": 3},
    "premises": {"in order": 12},
    "cut": {"top": 0},
    "reachable": {"both": 5},
}


def changed(**facts: object) -> Facts:
    return {**FACTS, "graph": "bb", **facts}


def test_a_written_baseline_reads_back_equal(tmp_path: Path) -> None:
    path = tmp_path / ".highwater" / "gate.toml"
    path.parent.mkdir()
    select = Selection(
        ["standard", "a/*"], ["a/b"], {"all epochs": {"scenario": "a/c", "parameters": {"n": 3}}}
    )
    written = Baseline(
        path, select, "e", {(PROOF, "all epochs"): {"verdict": "holds"}, (SCENARIO, "a/d.e"): FACTS}
    )
    path.write_text(written.text())
    read = baselines.read(path)
    assert read.facts == written.facts
    assert (read.select, read.engine, read.text()) == (select, "e", written.text())
    assert read.root == tmp_path
    lines = written.text().splitlines()
    assert lines.index("actions.down = 3") + 1 == lines.index("actions.up = 7")
    assert 'premises."in order" = 12' in lines


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("format = 2", "format: 1 is the one that is known, not 2"),
        ("format = 1\nsceanrios = 3", "unknown key 'sceanrios'"),
        ("format = 1\n[select]\nscenarios = [3]", "a name is a text, not 3"),
        ("format = 1\n[select.proofs.x]", "select.proofs.x: the key 'scenario' is missing"),
        ("format = 1\n[scenarios.x]\ndepth = 3", "scenarios.x: the fact 'verdict' is missing"),
        ("format = 1\n[scenarios.x]\nverdict = 'holds'\nactions = 3", "actions is not a fact"),
        ("format = 1\n[scenarios.x]\nverdict = 'holds'\ndistinct_states = -1", "a whole number is expected"),
        ("format = 1\n[scenarios.x]\nverdict = 'holds'\nactions.up = true", "actions: a whole number is"),
        ("format = ", "not TOML"),
    ],
)
def test_an_invalid_baseline_gives_one_line(tmp_path: Path, text: str, wrong: str) -> None:
    path = tmp_path / "gate.toml"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        baselines.read(path)
    assert str(refused.value).startswith(f"{path}:")
    assert wrong in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_selection_has_globs_paths_and_exceptions(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").touch()
    select = Selection(["truncation/kip-*", "*.toml"], ["truncation/kip-101", "two.toml"])
    names = [e.name for e in select.entries(tmp_path)]
    kips = ("truncation/kip-279", "truncation/kip-320", "truncation/kip-320-first-try")
    assert names == ["one.toml", *kips, "truncation"], "the protocol of the selected scenarios comes last"
    standard = [e.name for e in Selection(["standard"]).entries(tmp_path)]
    assert "replication/large-acks" in standard
    assert "replication/large" not in standard


TOO_LARGE = {
    f"replication/{name}" for name in ("defect-join-by-old-fetch", "defect-unfenced-fetch", "large", "peer")
}
"""Scenarios with 30 million states or more."""


def test_no_scenario_of_the_repository_is_outside_of_check_and_gate() -> None:
    """``check`` runs the standard scenarios; the committed baseline selects the others."""
    root = Path(__file__).parents[2]
    selected = {e.name for e in baselines.read(root / baselines.DEFAULT).select.entries(root)}
    left = {
        name
        for name, (_, standard) in scenario_files.titles().items()
        if not standard and name not in selected
    }
    assert left == TOO_LARGE


# --- comparing ------------------------------------------------------------------------------------

ENTRY = GateEntry.of_scenario("a/d", Path())


def verdict(after: Facts, before: Facts = FACTS) -> tuple[EntryState, list[str], list[tuple[str, str, str]]]:
    found = compare(ENTRY, before, Ran(after))
    return found.state, [str(d) for d in found.differences], found.renamed


def test_equal_facts_are_same_despite_other_expressions() -> None:
    assert verdict(FACTS) == (EntryState.SAME, [], [])
    assert verdict(changed()) == (EntryState.SAME, [], [])


def test_another_name_for_all_that_is_known_is_a_renaming() -> None:
    renamed = changed(actions={"rise": 7, "down": 3}, premises={"ordered": 12})
    wanted = [("action", "up", "rise"), ("property", "in order", "ordered")]
    assert verdict(renamed) == (EntryState.RENAMED, [], wanted)
    assert verdict({**renamed, "graph": "aa"}) == (EntryState.RENAMED, [], wanted)


def test_an_action_is_not_renamed_if_other_facts_differ() -> None:
    state, differences, renamed = verdict(changed(actions={"rise": 7, "down": 3}, depth=5))
    assert state is EntryState.DIFFERENT
    assert renamed == []
    assert differences == [
        "depth: 4 → 5",
        "action rise is new: 7 times taken",
        "action up is gone: it was 7 times taken",
    ]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"distinct_states": 13}, "distinct_states: 12 → 13"),
        ({"actions": {"up": 7, "down": 0}}, "action down is never taken any more (it was taken 3 times)"),
        (
            {"premises": {"in order": 0}},
            "property in order is vacuous now (its premise held in 12 states or steps)",
        ),
        ({"cut": {"top": 1}}, "bound top: 0 steps cut → 1 steps cut"),
        ({"violated": {"in order": 5}}, "property in order is violated at depth 5, and was not"),
        ({"verdict": "violated"}, "verdict: holds → violated"),
        ({"reachable": {"both": 5, "full": 3}}, "goal full is reached at depth 3, and was not"),
        ({"reachable": {"both": 4}}, "goal both is reached at depth 4, not 5"),
        ({"reachable": {}}, "goal both is not reached any more (it was at depth 5)"),
    ],
)
def test_every_fact_counts(facts: Facts, said: str) -> None:
    state, differences, _ = verdict(changed(**facts))
    assert state is EntryState.DIFFERENT
    assert differences == [said]


def test_another_verdict_does_not_report_missing_facts() -> None:
    """After a violation the baseline has no action counts, so no action is reported as gone."""
    violated = {"verdict": "violated", "distinct_states": 5, "violated": {"in order": 3}, "graph": "bb"}
    violated["reachable"] = FACTS["reachable"]
    _, told, _ = verdict(violated)
    assert told == [
        "verdict: holds → violated",
        "distinct_states: 12 → 5",
        "property in order is violated at depth 3, and was not",
    ]
    _, told, _ = verdict(FACTS, violated)
    assert told == [
        "verdict: violated → holds",
        "distinct_states: 5 → 12",
        "property in order is not violated any more (it was at depth 3)",
    ]


def test_entries_without_a_result_do_not_pass() -> None:
    assert compare(ENTRY, FACTS, None).state is EntryState.NOT_RUN
    assert compare(ENTRY, FACTS, Ran(stopped="seconds")).state is EntryState.NOT_RUN
    assert compare(ENTRY, FACTS, Ran(error="no")).state is EntryState.FAILED
    assert compare(ENTRY, FACTS, Ran(FACTS, broken=("x is violated",))).state is EntryState.DIFFERENT
