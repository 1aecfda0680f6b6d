"""Upgrades, downgrades and older brokers; initial states with records."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.checker.engines import native
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.model.language import Model
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import Interpreter
from highwater.model.replication import features
from highwater.model.replication.protocol import Replication

PLACE = "replication/"


def found(name: str, **changes: Any) -> SearchResult:
    """Search a scenario with these parameters, rules or properties changed."""
    scenario = scenario_files.find(PLACE + name)
    model = Request.of(scenario, Overrides(**changes)).model()
    return native.search(model, SearchOptions(workers=1))


def violated(name: str, **changes: Any) -> set[str]:
    return {v.property for v in found(name, **changes).violations}


@pytest.mark.parametrize(
    ("name", "older"),
    [
        ("upgrade-mixed-gate", "ungated_broker"),
        ("upgrade-mixed-old-fetcher", "old_fetcher"),
        ("upgrade-mixed-old-proposer", "old_proposer"),
    ],
)
def test_brokers_of_one_version_lose_nothing_within_the_same_budgets(name: str, older: str) -> None:
    assert violated(name) == Request.of(scenario_files.find(PLACE + name), Overrides()).expected
    result = found(name, parameters={older: -1}, properties=("invariants",))
    assert result.complete
    assert not result.violations


@pytest.mark.parametrize("older", ["ungated_broker", "old_fetcher", "old_proposer"])
def test_a_broker_that_is_not_there_is_older_in_nothing(older: str) -> None:
    """The parameter names a broker outside of the cluster, so no step changes."""
    plain = found("upgrade-mixed-gate", parameters={"ungated_broker": -1})
    beyond = found("upgrade-mixed-gate", parameters={"ungated_broker": -1, older: 2})
    assert (plain.distinct_states, plain.generated_states) == (
        beyond.distinct_states,
        beyond.generated_states,
    )


@pytest.mark.parametrize(
    ("ended", "off"),
    [
        (set(), frozenset()),
        ({"elr_flag"}, features.ELR_RULES),
        ({"elr_level"}, features.ELR_RULES | {"clean_registration"}),
        ({"recovery_flag"}, {"unclean_recovery"}),
        (
            {"elr_level", "elr_flag", "recovery_flag"},
            features.ELR_RULES | {"clean_registration", "unclean_recovery"},
        ),
    ],
)
def test_each_feature_ends_by_itself(ended: set[str], off: frozenset[str]) -> None:
    """966.18. The flag ends the ELR rules; the version also ends clean registrations."""
    parameters = {"brokers": 2, "recovery": 1, "downgrades": 1, "flag_changes": 1}
    m = Replication(parameters, Replication.profiles["kip_966"].rules)
    flags = {name: name not in ended for name in ("elr_level", "elr_flag", "recovery_flag")}
    model = Model(m)
    s: Any = m.state.lift(model.decode(model.initial[0]) | flags)
    on = [types.rules for holds, types in m.context(s).by_features if bool(holds)][-1]
    assert m.t.rules - on == off & m.t.rules


# --- initial states -------------------------------------------------------------------------------------


def start(**parameters: int) -> tuple[Model, Scalars]:
    model = Model(
        Replication({"replication_factor": 2, **parameters}, Replication.profiles["kip_966"].rules), []
    )
    (state,) = model.initial
    return model, state


STEPS = ("write_acks_all", "send_fetch", "answer_fetch", "take_fetch_answer", "acknowledge")
FETCH = STEPS[1:4]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("brokers", [2, 3])
def test_records_at_the_start_are_those_of_a_run_from_empty_logs(brokers: int, count: int) -> None:
    sizes = {"brokers": brokers, "initial_isr": 2, "records": 2, "recovery": 1}
    model, state = start(**sizes)
    interpreter = Interpreter(model)
    for action in [STEPS[0], *FETCH] * count + [*FETCH] + [STEPS[4]] * count:
        chosen = [
            step
            for step in interpreter.steps(state)
            if step.instance.action.name == action and step.instance.parameters.get("f", 1) == 1
        ]
        assert chosen, action
        assert chosen[0].state is not None
        state = chosen[0].state
    _, wanted = start(**sizes, initial_records=count)
    assert model.decode(state) == model.decode(wanted)


def test_under_min_isr_no_record_is_committed_at_the_start() -> None:
    sizes = {"brokers": 2, "initial_isr": 1, "records": 2}
    assert start(**sizes, initial_records=2)[1] == start(**sizes)[1]
