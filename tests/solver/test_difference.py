"""`highwater diff`: equal versions are reported as equal; a reported difference exists in the interpreter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.engines.solver.difference import Differences, differences
from highwater.checker.engines.solver.terms import Limits
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.model.language import LanguageError, Model
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import Interpreter
from tests import zoo
from tests.command import highwater
from tests.slow import slow

CONTROLLER = "replication/controller/large-unclean-recovery"


@cache
def version(*rules: str, profile: str | None = None) -> Model:
    settings = ["reassignments=1"]
    return Request.of(scenario_files.find(CONTROLLER), Overrides.parse(settings, rules, profile)).model()


@cache
def changes(*rules: str) -> Differences:
    """What these rules change."""
    return differences(version(), version(*rules))


def outcome(model: Model, before: Scalars, action: str, parameters: Mapping[str, object]) -> Scalars | None:
    interpreter = Interpreter(model)
    found = [
        s.state
        for s in interpreter.steps(before)
        if s.instance.action.name == action and dict(s.instance.parameters) == parameters
    ]
    return found[0] if found else None


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (["member_epoch_check=off"], {"alter_partition"}),
        # 966.9 states it twice: with min ISR members left after a reassignment, the ELR is empty.
        (["elr_within_replicas=off"], set()),
        *(
            pytest.param(rules, expected, marks=slow("another comparison; fast for other rules"))
            for rules, expected in (
                (["last_known_elr=off", "elr_off_forgets_last_known=off"], {"register"}),
                (["min_isr_change_empties_elr=off"], {"change_min_isr"}),
                (["last_known_leader_unfenced=off", "last_known_leader_first=on"], set()),
            )
        ),
    ],
)
def test_a_rule_changes_only_its_actions(rules: list[str], expected: set[str]) -> None:
    first, second, found = version(), version(*rules), changes(*rules)
    assert found.stopped_by is None
    assert {name for name, w in found.actions.items() if w} == expected
    for name, witness in found.actions.items():
        if witness:
            assert Interpreter(first).violated(witness.before) == []
            assert witness.first == outcome(first, witness.before, name, witness.parameters)
            assert witness.second == outcome(second, witness.before, name, witness.parameters)
            assert witness.first != witness.second


def test_a_witness_is_like_the_initial_state() -> None:
    first = version()
    witness = changes("member_epoch_check=off").actions["alter_partition"]
    assert witness is not None
    changed = Interpreter(first).changes(first.initial[0], witness.before)
    # A restart, and removal from the ISR.
    assert sorted(changed) == ["partition.isr", "registrations[2].epoch"]
    only = ["alter_partition"]
    again = differences(first, version("member_epoch_check=off"), actions=only)
    assert again.actions == {only[0]: witness}


def test_an_action_that_one_version_has_not() -> None:
    names = ["recover_uncleanly", "maybe_elect_unclean_leader"]
    found = differences(version(), version(profile="kip_966_first_phase"), actions=names)
    for name, absent in (("recover_uncleanly", "second"), ("maybe_elect_unclean_leader", "first")):
        witness = found.actions[name]
        assert witness is not None
        assert getattr(witness, absent) is None


MINE = """
from highwater.language import *


class Join(Protocol):
    name = "join"
    rules = {"twice": Rule("mine", "A follower joins after two fetches.")}
    profiles = {"one": Profile.of("one fetch"), "two": Profile.of("two fetches", "twice")}

    def define(self) -> Struct:
        fields = {"fetched": Bool, "joined": Bool}
        if self.on("twice"):
            fields["again"] = Bool
        return Struct("State", **fields)

    @action()
    def fetch(self, s: State) -> None:
        s.next.fetched = True
        if self.on("twice"):
            s.next.again = s.fetched

    @action()
    def join(self, s: State) -> None:
        require("it has fetched", s.fetched)
        if self.on("twice"):
            require("it has fetched twice", s.again)
        s.next.joined = True
"""


@pytest.mark.parametrize("reverse", [False, True])
def test_a_rule_with_a_field_of_its_own_is_compared_over_the_shared_fields(
    tmp_path: Path, reverse: bool
) -> None:
    (tmp_path / "join.py").write_text(MINE)
    scenario = tmp_path / "join.toml"
    first, second = ("two", "one") if reverse else ("one", "two")
    scenario.write_text(f'title = "joins"\nprotocol = "join.py"\nprofile = "{first}"\n')
    page = tmp_path / "page.html"
    run = highwater("diff", scenario, "--profile", second, "--json", "-", "--html", page)
    (found,) = run.results
    assert (run.status, found["verdict"], found["not_shared"]) == (1, "different", ["again"])
    by_name = {one["action"]: one for one in found["actions"]}
    assert by_name["fetch"]["equal"], "what only one version writes is no difference"
    assert by_name["join"]["before"] == {"fetched": True, "joined": False, "again": False}
    refused, taken = ("first", "second") if reverse else ("second", "first")
    assert by_name["join"][refused] is None
    assert by_name["join"][taken]["joined"] is True
    text = highwater("diff", scenario, "--profile", second).out
    assert "only shared fields are compared; only two has again (any value)" in text
    assert "it has fetched twice" in page.read_text()


def test_versions_with_a_field_each_are_refused_and_limits_are_results() -> None:
    with pytest.raises(LanguageError, match="neither version has all fields of the other"):
        differences(Model(zoo.Counters({"top": 2})), Model(zoo.Counters({"top": 3})))
    found = differences(version(), version("elr_within_replicas=off"), limits=Limits(seconds=1e-6))
    assert found.stopped_by == "seconds"
    assert not any(found.actions.values())


def test_the_command() -> None:
    run = highwater("diff", CONTROLLER, "--rule", "member_epoch_check=off", "--action", "alter_partition")
    assert run.status == 1
    assert re.search(r"alter_partition\(isr=\[.*2\], stale=2\) differs", run.out)
    assert "member_epoch_check on: the action cannot be taken" in run.out
    of_one = ("--action", "alter_partition", "--json", "-")
    run = highwater("diff", "kip_966", CONTROLLER, "--rule", "leader_epoch_check=off", *of_one)
    assert run.status == 0
    assert run.results[0]["verdict"] == "equal"
    assert run.results[0]["rules"] == {"leader_epoch_check": [True, False]}
    assert run.results[0]["versions"]["z3"]
    run = highwater("diff", CONTROLLER, "--profile", "kip_966_first_phase", "--each-rule", *of_one)
    assert [r["rule"] for r in run.results] == ["unclean_recovery", "balanced_election_waits_for_elr"]
    run = highwater("diff", CONTROLLER, "--profile", "kafka_4_2", "--limit-seconds", "0.01")
    assert run.status == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((CONTROLLER,), "name a second set of rules"),
        ((CONTROLLER, "--rule", "nonsense=on"), "nonsense"),
        ((CONTROLLER, "kip_966", "--profile", "kip_966"), "both name the second set of rules"),
        ((CONTROLLER, "kip_966", "--in", CONTROLLER), "A is a scenario"),
        ((CONTROLLER, "truncation/kip-320"), "only rules of one protocol"),
        ((CONTROLLER, "kip_967"), "did you mean"),
        (("kip_967", "kip_966"), "did you mean"),
        (("before_kip_903", "kip_966"), "name one with --in"),
        ((CONTROLLER, "kip_966", "--action", "fences"), "did you mean 'fence'"),
    ],
)
def test_bad_requests_are_one_line(arguments: Any, message: str) -> None:
    run = highwater("diff", *arguments)
    assert run.status == 2
    assert message in run.err
    assert run.err.count("\n") == 1
