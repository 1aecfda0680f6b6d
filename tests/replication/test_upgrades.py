"""Upgrades, downgrades, an older broker, missing ELR members and unclean recovery by logs: mistakes are detected."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest

from docs.pages import galleries
from highwater.checker.engines import native
from highwater.checker.report.counterexample import Counterexample
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.scenario_files import find
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.model.language import Model, Number, StructValue, any_of, as_bool, step_property
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import Interpreter
from highwater.model.replication import features, recovery
from highwater.model.replication.controller import registrations
from highwater.model.replication.controller.types import ControllerContext
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
    Model(m, [])
    names = ("elr_level", "elr_flag", "recovery_flag")
    s: Any = SimpleNamespace(**{name: as_bool(name not in ended) for name in names})
    on = [types.rules for holds, types in features.by_features(m, s) if holds._plain()][-1]
    assert m.t.rules - on == off & m.t.rules


def test_an_elr_that_is_off_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """966.18. Members of a leftover ELR soon lack records, which does no harm."""
    everything = ("electable_completeness", "elr_only_under_min_isr")
    assert not violated("upgrade-aborted", properties=everything)
    monkeypatch.setattr(features, "partition_as_read", lambda m, s: s.partition)
    assert violated("upgrade-aborted", properties=everything) == set(everything)


def test_after_a_crash_too_few_electable_members_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """966.6. One registration after an unclean shutdown excuses one missing member, not all."""
    bounds = {
        "initial_isr": 3, "min_isr": 3, "initial_records": 1, "crashes": 1, "fencings": 1, "max_broker_epoch": 1,
        "max_partition_epoch": 3, "controlled_shutdowns": 0, "max_leader_epoch": 1, "recovery": 0, "downgrades": 0,
        "upgrades": 0,
    }  # fmt: skip

    def empties_the_elr(now: ControllerContext, broker: Number) -> StructValue:
        concerned = (now.partition.isr | now.partition.elr).has(broker)
        return registrations._leaves(concerned, now, broker, now.t.brokers.of(lambda b: True))

    asked = {"parameters": bounds, "properties": ("enough_are_electable",)}
    assert not violated("recovery-downgrade", **asked)
    monkeypatch.setattr(registrations, "on_unclean_registration", empties_the_elr)
    assert violated("recovery-downgrade", **asked) == {"enough_are_electable"}


# --- unclean recovery: each wrong winner loses records, and consumers read others at their offsets ----


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
