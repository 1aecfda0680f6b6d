"""`highwater diff`: versions that are equal are said to be, and a difference is one in the interpreter."""

from __future__ import annotations

import re

import pytest

from checker import scenarios
from checker.request import Overrides, Request
from checker.solver.difference import differences
from checker.solver.limits import Limits
from model.language import LanguageError, Model
from model.language.interpreter import Interpreter
from model.language.model import Scalars
from tests import models, zoo

CONTROLLER = "replication/controller/unclean-recovery"


def version(*rules: str, profile: str | None = None) -> Model:
    settings = ["reassignments=1"]
    return Request.of(scenarios.find(CONTROLLER), Overrides.parse(settings, rules, profile)).model()


def outcome(model: Model, before: Scalars, action: str, parameters: dict[str, object]) -> Scalars | None:
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
        pytest.param(["last_known_elr=off"], {"register"}, marks=pytest.mark.slow),
        pytest.param(["min_isr_change_empties_elr=off"], {"change_min_isr"}, marks=pytest.mark.slow),
        pytest.param(["elr_within_replicas=off"], set(), marks=pytest.mark.slow),
        (["last_known_leader_unfenced=off", "last_known_leader_first=on"], set()),
    ],
)
def test_a_rule_changes_the_actions_that_it_is_about(rules: list[str], expected: set[str]) -> None:
    first, second = version(), version(*rules)
    found = differences(first, second)
    assert found.stopped_by is None
    assert found.equal == (not expected)
    assert {name for name, w in found.actions.items() if w} == expected
    for name, witness in found.actions.items():
        if witness:
            assert Interpreter(first).violated(witness.before) == []
            assert witness.first == outcome(first, witness.before, name, witness.parameters)
            assert witness.second == outcome(second, witness.before, name, witness.parameters)
            assert witness.first != witness.second


def test_what_is_equal_is_equal_in_random_runs() -> None:
    """Where nothing differs, the interpreters of both take the same steps from states of either."""
    first, second = version(), version("elr_within_replicas=off")
    one, two = Interpreter(first), Interpreter(second)
    states = list(models.reachable_states(second, 300))
    assert all(sorted(one.successors(s)) == sorted(two.successors(s)) for s in states)


def test_a_witness_is_like_the_initial_state() -> None:
    first = version()
    witness = differences(first, version("member_epoch_check=off")).actions["alter_partition"]
    assert witness is not None
    changed = Interpreter(first).changes(first.initial[0], witness.before)
    assert sorted(changed) == ["partition.isr", "registrations[2].epoch"]  # a restart, and out of the ISR


def test_an_action_that_one_version_has_not() -> None:
    found = differences(version(), version(profile="kip_966_first_phase"))
    for name, absent in (("recover_uncleanly", "second"), ("maybe_elect_unclean_leader", "first")):
        witness = found.actions[name]
        assert witness is not None
        assert getattr(witness, absent) is None


def test_versions_with_other_states_are_refused_and_limits_are_results() -> None:
    with pytest.raises(LanguageError, match="different states"):
        differences(Model(zoo.Counters({"top": 2})), Model(zoo.Counters({"top": 3})))
    found = differences(version(), version(), limits=Limits(seconds=1e-6))
    assert found.stopped_by == "seconds"
    assert not found.equal
    assert not found.actions


def test_the_command(highwater) -> None:  # type: ignore[no-untyped-def]
    run = highwater("diff", CONTROLLER, "--rule", "member_epoch_check=off")
    assert run.status == 1
    assert re.search(r"alter_partition\(isr=\[.*2\], stale=2\) differs", run.out)
    assert "member_epoch_check on: the action cannot be taken" in run.out
    run = highwater("diff", CONTROLLER, "--rule", "leader_epoch_check=off", "--json", "-")
    assert run.status == 0
    assert run.results[0]["verdict"] == "equal"
    assert run.results[0]["rules"] == {"leader_epoch_check": [True, False]}
    run = highwater("diff", CONTROLLER, "--profile", "kip_966_first_phase", "--each-rule", "--json", "-")
    assert run.status == 1
    assert [r["rule"] for r in run.results] == ["unclean_recovery"]
    assert highwater("diff", CONTROLLER).status == 2
    assert highwater("diff", CONTROLLER, "--rule", "nonsense=on").status == 2
    run = highwater("diff", CONTROLLER, "--profile", "kafka_trunk_2024_10", "--limit-seconds", "0.01")
    assert run.status == 3
