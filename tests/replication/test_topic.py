"""A topic of two partitions: each step acts as on a single one, except for shared effects; broker symmetry."""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from highwater.checker.engines import native
from highwater.checker.scenarios.search import EngineError, SearchOptions, SearchResult
from highwater.invariants.catalogue import stated
from highwater.invariants.replication import INVARIANTS, STEP_PROPERTIES
from highwater.model.language import Model
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Instance
from highwater.model.replication.controller import Controller
from highwater.model.replication.protocol import Replication
from highwater.model.replication.topic import Topic
from tests.language.test_symmetry import plainly
from tests.models import reachable_states
from tests.runs import Run
from tests.slow import slow

SHARED = ("registrations", "min_insync_replicas", "unclean_election", "elr_on")
OWN = ("partition", "complete", "diminished", "elr_entries", "needless")
PARAMETERS = {
    "brokers": 2,
    "replication_factor": 2,
    "min_isr": 2,
    "max_min_isr": 2,
    "reassignments": 1,
    "replication_factor_changes": 1,
    "unclean_election": 2,
    "leads_elsewhere": 1,
    "elr_changes": 1,
    "removals": 1,
    "directories": 1,
    "judged_elections": 1,
    "max_elr_entries": 3,
    "max_broker_epoch": 2,
    "max_leader_epoch": 6,
    "max_partition_epoch": 8,
}
RULES = Controller.profiles["kafka_4_2"].rules


@pytest.fixture(scope="module")
def topic() -> Model:
    return Model(Topic(PARAMETERS, RULES), stated("replication.topic").invariants)


@pytest.fixture(scope="module")
def alone() -> Model:
    return Model(Controller({**PARAMETERS, "first_partition_replicas": 2}, RULES))


def seen(model: Model, state: Scalars, place: int) -> dict[str, Any]:
    """One partition's view of a topic's state, as a plain state of the controller's protocol."""
    plain = model.decode(state)
    first = len(plain["partition"]["replicas"]) if place else 0
    owner = plain["second"] if place else plain
    return {
        "first_partition_replicas": first,
        **{name: plain[name] for name in SHARED},
        **{name: owner[name] for name in OWN},
    }


def same_instance(of: Model, instance: Instance, place: int) -> int | None:
    """The controller's instance for a topic's instance and a partition; None if it concerns the other."""
    choice = dict(instance.parameters)
    if choice.pop("partition", place) != place:
        return None
    for number, other in enumerate(of.instances):
        if other.action.name == instance.action.name and dict(other.parameters) == choice:
            return number
    raise AssertionError(f"{instance.action.name} {choice} is no step of the controller")


def without_entries(plain: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in plain.items() if name != "elr_entries"}


def test_a_step_acts_on_a_partition_as_on_a_single_one(topic: Model, alone: Model) -> None:
    """On states of random walks, except for the index of ELR members: its entries can change partitions."""
    both, one = Interpreter(topic), Interpreter(alone)
    compared: set[tuple[str, int]] = set()
    rng = random.Random(1)
    for state in reachable_states(topic, 150, seed=7):
        for number in rng.sample(both.enabled(state), min(6, len(both.enabled(state)))):
            instance = topic.instances[number]
            if instance.action.name == "register_in_part":
                continue
            after = both.step(state, number).state
            if after is None:
                continue
            for place in (0, 1):
                twin = same_instance(alone, instance, place)
                before = seen(topic, state, place)
                if twin is None:
                    assert without_entries(seen(topic, after, place)) == without_entries(
                        {
                            **before,
                            "first_partition_replicas": seen(topic, after, place)["first_partition_replicas"],
                        }
                    )
                    continue
                alone_after = one.step(alone.protocol.state.encode(before), twin).state
                assert alone_after is not None
                expected = alone.decode(alone_after)
                expected["first_partition_replicas"] = seen(topic, after, place)["first_partition_replicas"]
                assert without_entries(seen(topic, after, place)) == without_entries(expected)
                compared.add((instance.action.name, place))
    names = {name for name, _ in compared}
    assert {"fence", "unfence", "register", "alter_partition", "reassign", "change_min_isr"} <= names
    assert all((name, place) in compared for name in ("fence", "alter_partition") for place in (0, 1))


def test_a_step_about_a_broker_has_the_guards_of_both_partitions(topic: Model) -> None:
    """A decision that fails for one partition fails for both."""
    guards = [g.name for i in topic.instances if i.action.name == "fence" for g in i.guards]
    assert guards.count("no candidate for leader is a broker that is no replica") >= 2


def at(model: Model, **fields: Any) -> Run:
    """A run from the initial state with these fields changed; ``second__isr`` is the field ``second.isr``."""
    run = Run(model)
    plain = run.state
    for path, value in fields.items():
        *place, last = path.split("__")
        where = plain
        for part in place:
            where = where[part]
        where[last] = value
    run.scalars = model.protocol.state.encode(plain)
    return run


def test_entries_of_the_second_partition_go_astray_to_the_first(topic: Model) -> None:
    """K8: broker 0 has two entries for the second partition; when it leaves the ELR, one remains for the
    first.
    """
    run = at(topic, second__partition__isr=[1], second__partition__elr=[0], second__elr_entries=[2, 0])
    after = run.take("alter_partition", partition=1, isr=[0, 1], stale=None).state
    assert after["second"]["partition"]["elr"] == []
    assert after["second"]["elr_entries"] == [0, 0]
    assert after["elr_entries"] == [1, 0]


@pytest.mark.parametrize(("first", "elr"), [([0, 1], [0]), ([0], [])])
def test_min_isr_of_the_second_partition_follows_the_replicas_of_the_first(
    topic: Model, first: list[int], elr: list[int]
) -> None:
    run = at(topic, partition__replicas=first, partition__isr=first)
    after = run.take("alter_partition", partition=1, isr=[1], stale=None).state
    assert after["second"]["partition"]["elr"] == elr


@pytest.fixture(scope="module")
def failing() -> Model:
    """A topic whose controller can fail in the middle of a registration."""
    return Model(Topic({**PARAMETERS, "failovers": 2}, RULES), stated("replication.topic").invariants)


def test_a_registration_is_written_in_part_and_in_order(failing: Model) -> None:
    """Partitions with the broker in the ISR come first, then those with it in the ELR."""
    written = {"broker": 0, "clean": False}
    run = at(failing)
    assert not run.can("register_in_part", **written, written=(1,))
    after = run.take("register_in_part", **written, written=(0,)).state
    assert after["partition"]["isr"] == [1]
    assert after["second"]["partition"]["isr"] == [0, 1]
    assert after["registrations"][0]["epoch"] == 0
    assert after["restarting"] == [0]
    run = at(failing, partition__isr=[1], partition__elr=[0], partition__leader=1, elr_entries=[1, 0])
    assert run.can("register_in_part", **written, written=(1,))
    assert not run.can("register_in_part", **written, written=(0,))


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("elr_members_are_indexed", {"isr": [1], "elr": [0]}),
        ("elr_within_replicas", {"replicas": [1], "isr": [1], "elr": [0]}),
        ("leader_in_isr", {"isr": [0], "elr": []}),
        ("isr_and_elr_are_disjoint", {"elr": [0]}),
    ],
)
def test_a_property_is_checked_on_the_second_partition(
    failing: Model, name: str, fields: dict[str, Any]
) -> None:
    run = at(failing, **{f"second__partition__{field}": value for field, value in fields.items()})
    assert name in run.interpreter.violated(run.scalars)


# --- broker symmetry ----------------------------------------------------------------------------------


ANY = frozenset({"clean_election_picks_any", "unclean_election_picks_any"})
SMALL = {
    "initial_records": 1, "crashes": 1, "max_broker_epoch": 0, "max_leader_epoch": 1, "max_partition_epoch": 2,
}  # fmt: skip
WHOLE = SearchOptions(workers=1, all_states=True)
REDUCED = replace(WHOLE, symmetry=True)


def model(
    parameters: Mapping[str, int], *, without: frozenset[str] = frozenset(), first: bool = False
) -> Model:
    """The proposal, electing any candidate (or the ``first``), with all invariants and step properties."""
    rules = (Replication.profiles["kip_966"].rules | (frozenset() if first else ANY)) - without
    steps = [p for p in STEP_PROPERTIES if p.name != "keeps_the_promise"]
    invariants = [i for i in INVARIANTS if i.rule is None or i.rule in rules]
    return Model(Replication(dict(parameters), rules), invariants, (), steps)


def verdicts(result: SearchResult) -> dict[str, int]:
    return {v.property: v.depth for v in result.violations}


def frozen(plain: Any) -> Any:
    if isinstance(plain, dict):
        return tuple((name, frozen(value)) for name, value in sorted(plain.items()))
    if isinstance(plain, (list, tuple)):
        return tuple(frozen(value) for value in plain)
    return plain


def orbits(asked: Model) -> tuple[int, int]:
    """The number of reachable states, and of their equivalence classes under renaming of plain values."""
    interpreter, state_type = Interpreter(asked), asked.protocol.state
    orders = [{"broker": order} for order in itertools.permutations(range(asked.protocol.p.brokers))]
    seen, waiting = set(asked.initial), deque(asked.initial)
    while waiting:
        for step in interpreter.steps(waiting.popleft()):
            if step.state is not None and step.state not in seen:
                seen.add(step.state)
                waiting.append(step.state)
    plain = [state_type.decode(state) for state in seen]
    return len(seen), len(
        {min((frozen(plainly(state_type, p, order)) for order in orders), key=repr) for p in plain}
    )


@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param(
            {"any_first_leader": 1, "fencings": 0}, marks=slow("three brokers; fast with two brokers")
        ),
        # A last known leader is a number and replicas are a sequence: both are renamed.
        {"any_first_leader": 1, "brokers": 2, "crashes": 2, "max_broker_epoch": 1},
    ],
)
def test_the_reduced_states_are_those_of_the_interpreter_renamed_as_plain_values(
    parameters: dict[str, int],
) -> None:
    asked = model({**SMALL, **parameters})
    whole, reduced = native.search(asked, WHOLE), native.search(asked, REDUCED)
    assert orbits(asked) == (whole.distinct_states, reduced.distinct_states)
    assert whole.distinct_states > reduced.distinct_states


@pytest.mark.parametrize(
    ("parameters", "without"),
    [({}, ""), ({"brokers": 2, "initial_records": 0, "crashes": 0, "fencings": 2}, "hwm_needs_min_isr")],
    ids=["holds", "violated"],
)
def test_verdicts_are_the_same(parameters: dict[str, int], without: str) -> None:
    asked = model({**SMALL, **parameters}, without=frozenset(without.split()))
    whole, reduced = native.search(asked, WHOLE), native.search(asked, REDUCED)
    assert verdicts(whole) == verdicts(reduced)
    assert bool(verdicts(whole)) == bool(without)
    if not without:
        assert reduced.distinct_states < whole.distinct_states / 1.9


def test_election_by_broker_number_is_refused_with_symmetry() -> None:
    """Without a replica order, the broker with the least number is elected, so symmetry is refused."""
    asked = model(SMALL, first=True, without=frozenset({"replica_order"}))
    with pytest.raises(EngineError, match="symmetry cannot be used on replication"):
        native.search(asked, REDUCED)
