"""Exploring scenarios side by side gives the same results; missing rules are noticed in all of them."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.engines.liveness import search_with_liveness
from highwater.checker.engines.native import search
from highwater.checker.engines.native.state_graph import explore
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import SearchOptions
from tests.checker.conftest import Write
from tests.checker.test_command_runs import LONG, interrupted, start
from tests.command import highwater
from tests.slow import all_but, slow

SOME = [
    "truncation/kip-101",
    "truncation/kip-320",
    "quorum/liveness-before-kip-1166",
    "replication/controller/defect-elr-not-emptied",
    "zookeeper/before-kip-380",
]


def comparable(results: Any) -> Any:
    """Results without times, memory and the choice among equally short counterexamples."""
    return [
        {
            **{k: v for k, v in r.items() if "seconds" not in k and "memory" not in k},
            "violations": [(v["property"], v["depth"]) for v in r["violations"]],
        }
        for r in results
    ]


def test_the_same_as_one_after_the_other() -> None:
    alone = highwater("check", *SOME, "--workers", 1, "--json", "-")
    together = highwater("check", *SOME, "--workers", 2, "--json", "-")
    assert [r["scenario"] for r in together.results] == SOME
    assert comparable(together.results) == comparable(alone.results)
    assert together.status == alone.status == 0


def test_counterexamples_are_printed_in_the_order_of_the_scenarios() -> None:
    asked = ["check", *SOME[:2], SOME[4], "--verbose"]
    lines = [
        [line for line in run.out.splitlines() if "is violated" in line or line in SOME]
        for run in (highwater(*asked, "--workers", 1), highwater(*asked, "--workers", 2))
    ]
    assert lines[0] == lines[1]
    assert len(lines[0]) > 4


def test_an_error_of_a_scenario_is_reported_in_its_turn(counter: Write) -> None:
    good, bad = counter(name="good.toml"), counter("[parameters]\nsize = 2\n", name="bad.toml")
    run = highwater("check", good, good, bad, good, "--workers", 2)
    assert run.status == 2
    assert "Int(0, 2)" in run.err or "count" in run.err
    assert len([line for line in run.out.splitlines() if " holds " in line]) == 2


def test_a_scenario_with_too_little_memory_runs_alone() -> None:
    run = highwater("check", *SOME[:2], "--workers", 2, "--memory", 24 / 1024, "--json", "-")
    assert run.status == 0
    assert [r["scenario"] for r in run.results] == SOME[:2]
    assert [r["complete"] for r in run.results] == [True, True]
    none = highwater("check", *SOME[:2], "--workers", 2, "--memory", 10 / 1024)
    assert none.status == 2
    assert "MiB of memory are too few" in none.err


def children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def helpers(pid: int) -> list[int]:
    """The ids of the command's two processes, as soon as they can be interrupted."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(OSError):
            found = [child for child in children(pid) if os.getpgid(child) == child]
            if len(found) == 2:
                return found
        time.sleep(0.02)
    raise AssertionError("no helpers were started")


def gone(pid: int) -> bool:
    """True if the process ends within 20 seconds."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


NAMES = ("truncation/kip-320", "truncation/kip-101", "truncation/kip-279")


@slow("two processes search long scenarios; fast with one process")
def test_an_interrupt_keeps_each_scenario_s_partial_result() -> None:
    process = start("check", *NAMES, *LONG, "--workers", "2", "--json", "-")
    started = helpers(process.pid)
    # The scenarios with the most expected states come first.
    for line in process.stderr:
        if all(f"{name} (" in line for name in NAMES[1:]):
            break
    _, out, err = interrupted(process)
    assert process.returncode == 130
    assert [(r["scenario"], r["stopped_by"]) for r in json.loads(out)] == [
        (name, "interrupted") for name in NAMES[1:]
    ]
    assert all(r["distinct_states"] > 1000 for r in json.loads(out))
    assert "Traceback" not in err
    assert all(map(gone, started))


def test_helpers_end_with_the_command_however_it_ends() -> None:
    process = start("check", *NAMES, *LONG, "--workers", "2", "--quiet")
    started = helpers(process.pid)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=600)
    assert all(map(gone, started))


def test_helpers_use_the_options_of_the_command_and_of_the_files(counter: Write) -> None:
    """Helpers get symmetry, limits, rules and engine of the command, and ``deadlock`` of each file."""
    names = ["truncation/kip-279", "truncation/kip-320"]
    own = ["profile", "symmetry"]
    paths = [counter(f"deadlock = {deadlock}\n", name=f"{deadlock}.toml") for deadlock in ("true", "false")]
    for asked in (
        [*names, "--symmetry", "--limit-states", 5000],
        [*paths, "--first", "--set", "top=8", "--rule", "wraps=on", "--engine", "interpreter"],
    ):
        alone = highwater("check", *asked, "--workers", 1, "--json", "-")
        together = highwater("check", *asked, "--workers", 2, "--json", "-")
        assert [r[k] for r in together.results for k in own] == [r[k] for r in alone.results for k in own]
        assert counts(together.results) == counts(alone.results)
        assert together.status == alone.status


def counts(results: Any) -> Any:
    """Results without the counts that depend on the number of threads when a search stops early."""
    return [
        (r["scenario"], r["verdict"], r["complete"], r["stopped_by"], r["complete"] and r["distinct_states"])
        for r in results
    ]


# --- a missing rule is noticed outside of the default scenarios, too ----------------------------------


NOTICED = {
    "replication/large-old-checkpoints end_waits_for_epoch_start": "told_end_never_falls",
    "replication/large-waiting-producers followers_end_waiting": "acknowledged_records_survive",
    "replication/large-acks consumers_read_below_hwm": "consumers_read_consistently",
    "replication/liveness-old-checkpoint min_isr_within_replicas": "hwm_comes_to_cover_what_is_committed",
    "replication/large-many-at-once hwm_waits_for_leaving": "electable_completeness",
    "replication/large-late-proposals partition_epoch_check": "electable_completeness",
    "replication/large-late-proposals proposal_keeps_its_epochs": "electable_completeness",
    "replication/large-former-controller answers_are_committed": "electable_completeness",
    "replication/large-deletion removed_replicas_delete": "electable_completeness",
    "replication/large-deletion reassignment_bumps_leader_epoch": "electable_completeness",
    "replication/large-shutdown-requests changes_are_no_stop_replica": "told_leaders_lead",
    "quorum/large-finalised missing_hwm_is_greatest": "answers_bring_news",
    "quorum/large-consumer consumers_leave_it_out": "answers_bring_news",
    "quorum/large-consumer consumers_read_committed": "hwm_is_committed",
    "quorum/large-elections diverging_is_answered": "no_fetch_waits_while_its_log_diverges",
    "quorum/large-observers growth_completes_all": "no_fetch_waits_while_its_hwm_is_behind",
    "zookeeper/large-two-partitions leader_and_isr_epoch_check": "checkpoints_keep_every_partition",
    "zookeeper/large-deletion stop_replica_epoch_check": "isr_members_keep_their_log",
    "zookeeper/small-older-controller missing_epoch_is_obeyed": "live_brokers_hear_what_was_decided",
}
"""Standard scenario and rule → a property that fails there without the rule."""

QUICK = {
    "replication/liveness-old-checkpoint min_isr_within_replicas",
    "quorum/large-consumer consumers_leave_it_out",
    "zookeeper/large-two-partitions leader_and_isr_epoch_check",
}


@pytest.mark.parametrize("case", all_but(QUICK, NOTICED, "a search for each rule; fast for three of them"))
def test_a_standard_scenario_notices_the_rule(case: str) -> None:
    name, rule = case.split()
    scenario = scenario_files.find(name)
    assert scenario.standard
    assert not scenario.expectation.violated
    overrides = Overrides(rules={rule: False}, properties=(NOTICED[case],))
    model = Request.of(scenario, overrides).model()
    result = search_with_liveness(model, search, explore, SearchOptions(workers=1, stop_at_first=True))
    assert [v.property for v in result.violations] == [NOTICED[case]]
