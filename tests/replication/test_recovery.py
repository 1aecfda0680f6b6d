"""Unclean recovery by logs: each wrong winner loses records, and consumers read others at their offsets."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from docs.pages import galleries
from highwater.checker.engines import native
from highwater.checker.report.counterexample import Counterexample
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.scenario_files import find
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import Model, any_of, step_property
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import Interpreter
from highwater.model.replication import recovery
from highwater.model.replication.protocol import Replication

State = Mapping[str, Any]


@cache
def runs(name: str) -> Mapping[str, Counterexample]:
    """Property → the shortest run to its violation in a defect's scenario."""
    return {example.name: example for example in galleries.find(name).examples}


RIGHT = {
    "recovery-shortest-log": "recovery-two-records",
    "recovery-any-length": "recovery-two-records",
    "recovery-longest-log": "recovery-two-epochs",
    "recovery-any-log": "recovery-two-epochs",
}
"""Defects in which the wrong replica wins; for each, the scenario with the rules on."""


def answers(run: Counterexample) -> tuple[int, dict[int, State]]:
    """The broker elected by logs in a run, and the log infos that the controller had, by broker."""
    step = next(n for n, s in enumerate(run.steps) if s.action == "finish_recovery")
    known = run.steps[step - 1].state["log_infos"]
    return run.steps[step].parameters["b"], {b: info for b, info in enumerate(known) if info is not None}


def right_winners(known: Mapping[int, State]) -> set[int]:
    """966.14 as in the proposal: highest leader epoch first, then longest log."""
    rank = {b: (-1 if i["last_epoch"] is None else i["last_epoch"], i["end"]) for b, i in known.items()}
    return {b for b in known if rank[b] == max(rank.values())}


@pytest.mark.parametrize("name", RIGHT)
def test_a_wrong_winner_is_elected_over_the_right_one(name: str) -> None:
    for run in runs(name).values():
        winner, known = answers(run)
        assert len(known) == 2
        assert winner not in right_winners(known)


@pytest.mark.parametrize("name", RIGHT)
def test_consumers_read_another_record_at_an_offset_that_was_committed(name: str) -> None:
    state = runs(name)["consumers_read_consistently"].steps[-1].state
    served = [
        (broker["log"][o]["value"], record["value"])
        for b, broker in enumerate(state["brokers"])
        if broker["status"] == "RUNNING" and broker["view"]["leader"] == b
        for o, record in enumerate(state["committed"])
        if o < broker["hwm"]
    ]
    assert any(value != committed for value, committed in served)


def test_enough_answers_leave_out_the_only_one_that_has_the_record() -> None:
    run = runs("recovery-enough-answers")["leader_completeness"]
    _, known = answers(run)
    last = run.steps[-1].state
    awaited = set(run.steps[-2].state["partition"]["last_known_elr"])
    complete = {b for b, broker in enumerate(last["brokers"]) if broker["log"] == last["committed"] != []}
    assert len(known) == last["min_insync_replicas"] == 2
    assert len(complete) == 1
    assert complete <= awaited - set(known)


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


def test_the_scenarios_with_the_rules_on_have_the_budgets_of_the_defects() -> None:
    for name, right in RIGHT.items():
        on = Request.of(find(f"replication/{right}"), Overrides())
        assert find(f"replication/defect-{name}").parameters == on.scenario.parameters


@step_property("966.14")
def nobody_passes_a_better_fenced_replica(m: Any, before: Any, after: Any) -> Any:
    """No election by logs while a fenced replica has reported a better log."""

    def passes(winner: Any, other: Any) -> Any:
        mine, theirs = before.log_infos[winner], before.log_infos[other]
        better = mine.is_some & theirs.is_some & recovery.is_better(m, theirs.value, mine.value)
        fenced = ~m.t.active(before.registrations).has(other)
        return better & fenced & before.partition.leader.is_none & after.partition.leader.is_(winner)

    pairs = [(a, b) for a in m.broker for b in m.broker if int(a) != int(b)]
    return ~any_of(passes(a, b) for a, b in pairs)


@pytest.mark.parametrize("counts_unfenced", [True, False])
def test_a_fenced_replica_with_a_better_log_does_not_block_elections(counts_unfenced: bool) -> None:
    """966.14, Aggressive: broker 0 has the record and reported it, then crashed; broker 1 can still lead."""
    parameters = {
        "brokers": 2, "initial_isr": 1, "min_isr": 1, "initial_records": 1, "recovery": 1, "unclean_election": 1,
        "crashes": 2, "max_broker_epoch": 1,
    }  # fmt: skip
    rules = set(Replication.profiles["kip_966"].rules)
    rules = rules if counts_unfenced else rules - {"recovery_counts_unfenced"}
    asked = Model(Replication(parameters, rules), (), (), [nobody_passes_a_better_fenced_replica])
    result = native.search(asked, SearchOptions(workers=1))
    assert bool(result.violations) == counts_unfenced
