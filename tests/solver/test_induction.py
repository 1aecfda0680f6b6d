"""The controller's rules are inductive; each rule that is off breaks the proofs that rest on it."""

from __future__ import annotations

import pytest

from highwater.checker.engines.solver import induction
from highwater.checker.engines.solver.induction import INITIAL, WITHIN_TYPES
from highwater.checker.engines.solver.terms import BEYOND, Limits, unbounded
from highwater.model.language import (
    Bool,
    Int,
    Model,
    Option,
    Parameter,
    Protocol,
    Seq,
    State,
    Struct,
    action,
    invariant,
    require,
)
from highwater.model.language.interpreter import Interpreter
from tests.slow import largest, often, slow
from tests.solver.controller_holes import HARMLESS, HOLES, OTHER_PHASE
from tests.solver.controllers import HELPERS, broken, controller, prove
from tests.solver.test_bounded import Odometer, never_turns_over


@pytest.mark.parametrize(
    "brokers",
    [
        2,
        pytest.param(3, marks=slow("the proof for more brokers; fast for two")),
        *(pytest.param(n, marks=largest("the benchmark proves it too")) for n in (4, 5)),
    ],
)
def test_the_rules_are_inductive(brokers: int) -> None:
    result = prove(controller(brokers))
    assert result.failures == []
    assert result.proved
    assert result.never == []
    actions = {v.action for v in result.verdicts}
    assert len(actions) == 13  # includes the initial states; the profile leaves out one action
    for name in (
        "leader_epoch_never_falls",
        "isr_and_elr_are_disjoint",
        "brokers_are_registered",
        WITHIN_TYPES,
    ):
        assert {v.action for v in result.verdicts if v.property == name} >= actions - {INITIAL}


@slow("the proofs for one more profile; fast for the proposal")
def test_the_first_phase_is_inductive() -> None:
    result = prove(controller(3, profile="kip_966_first_phase"))
    # From a state that no helper invariant excludes there.
    assert broken(result) == {"partitions_remember_their_last_leader": {"reassign"}}
    assert result.never == []


def test_every_rule_is_in_the_table() -> None:
    switched = {rule for rules in HOLES for rule in rules}
    on = controller(1).protocol.profiles["kip_966"].rules
    assert switched | HARMLESS | OTHER_PHASE == on


def test_a_hole_breaks_a_proof_that_rests_on_the_rule() -> None:
    result = prove(controller(3, ("member_epoch_check",)), ["alter_partition", "unfence"])
    assert broken(result) == HOLES["member_epoch_check",]
    assert {v.action for v in result.verdicts if v.kept} == {"alter_partition", "unfence"}


@slow("complete proofs with each rule off; the fast test has two actions of one rule")
@pytest.mark.parametrize("off", list(HOLES)[:: often(3, 1)], ids="+".join)
def test_a_hole_breaks_the_proofs_that_rest_on_the_rule(off: tuple[str, ...]) -> None:
    result = prove(controller(3, off))
    assert broken(result) == HOLES[off]
    assert result.stopped_by is None


@slow("another complete proof")
def test_other_rules_break_no_proof() -> None:
    """All harmless rules are off together."""
    assert prove(controller(3, sorted(HARMLESS))).proved


def test_a_failure_names_the_invariant_that_would_exclude_it() -> None:
    model = controller(3)
    model.properties = [p for p in model.properties if p.name != "brokers_are_registered"]
    model.step_properties = []
    result = induction.prove(model, known=HELPERS.invariants, actions=["unfence"])
    assert set(broken(result)) == {"leader_is_active", "isr_members_are_eligible"}
    interpreter = Interpreter(model)
    for verdict in result.failures:
        failure = verdict.failure
        assert failure is not None
        assert failure.instance is not None
        assert failure.excluded_by == ("brokers_are_registered",)
        assert interpreter.violated(failure.before) == []
        assert failure.after in interpreter.successors(failure.before)
        assert verdict.property in interpreter.violated(failure.after or ())


def test_limits_are_results() -> None:
    result = induction.prove(controller(3), limits=Limits(seconds=0.1))
    assert result.stopped_by == "seconds"
    assert not result.proved
    assert not result.failures
    assert induction.prove(controller(1), limits=Limits(memory_bytes=1 << 20)).stopped_by == "memory"


class _Overflowing(Protocol):
    name = "overflowing"

    def define(self) -> Struct:
        return Struct("State", low=Int(0, 3), high=Int(0, 3), log=Seq(Bool, 2))

    def initial(self) -> list[dict[str, object]]:
        return [{"low": 1, "high": 2, "log": []}]

    @action()
    def raise_low(self, s: State) -> None:
        require("there is room", s.low < s.high)
        s.next.low = s.low + 1

    @action()
    def write(self, s: State) -> None:
        s.next.log = s.log.append(s.low < s.high)

    @action()
    def never(self, s: State) -> None:
        require("out of order", s.low > s.high)
        s.next.low = 0


@invariant("test")
def in_order(m: _Overflowing, s: State) -> object:
    return s.low <= s.high


@invariant("test")
def never_three(m: _Overflowing, s: State) -> object:
    return s.low < 3


@invariant("test")
def starts_at_two(m: _Overflowing, s: State) -> object:
    return s.low >= 2


def test_types_initial_states_and_actions_that_never_happen() -> None:
    result = induction.prove(Model(_Overflowing(), [in_order, never_three]), known=[in_order])
    assert broken(result) == {WITHIN_TYPES: {"write"}, "never_three": {"raise_low"}}
    assert result.never == ["never"]
    leaves = next(v.failure for v in result.failures if v.property == WITHIN_TYPES)
    assert leaves is not None
    assert leaves.after is None
    wrong = induction.prove(Model(_Overflowing(), [starts_at_two]))
    assert broken(wrong)["starts_at_two"] >= {INITIAL}


def test_a_step_that_is_cut_keeps_everything() -> None:
    result = induction.prove(Model(Odometer(), [never_turns_over]))
    assert result.proved
    assert result.never == []


class _Between(Protocol):
    """Numbers whose bit-vectors have more values than their types, so proofs must assume the types."""

    name = "between"
    types = {"above": Int(1, 3), "below": Int(0, 2), "around": Int(-3, 2), "small": Int(0, 1)}

    def define(self) -> Struct:
        return Struct("State", **self.types)

    def initial(self) -> list[dict[str, object]]:
        return [{"above": 1, "below": 1, "around": 1, "small": 0}]

    @action()
    def down(self, s: State) -> None:
        require("not the least", (s.above != 1) & (s.around != -3))
        s.next.above, s.next.around = s.above - 1, s.around - 1

    @action()
    def up(self, s: State) -> None:
        require("not the greatest", (s.below != 2) & (s.around != 2))
        s.next.below, s.next.around = s.below + 1, s.around + 1

    @action()
    def copy(self, s: State) -> None:
        require("it is small", s.below != 2)
        s.next.small = s.below


@invariant("test")
def never_two(m: _Between, s: State) -> object:
    return s.around < 2


def test_proofs_cover_exactly_the_states_within_types() -> None:
    assert induction.prove(Model(_Between(), [])).proved
    assert broken(induction.prove(Model(_Between(), [never_two]))) == {"never_two": {"up"}}


class _Journal(Protocol):
    """One parameter bounds a sequence and a number, the other only numbers."""

    name = "journal"
    parameters = {"length": Parameter(2, 1, 9, "of the log"), "last": Parameter(3, 1, 9, "epoch")}

    def define(self) -> Struct:
        length, last = self.p.length, self.p.last
        return Struct(
            "State",
            log=Seq(Bool, length, bound="length"),
            read=Int(0, length, bound="length"),
            epoch=Option(Int(0, last, bound="last")),
        )

    def initial(self) -> list[dict[str, object]]:
        return [{"log": [], "read": 0, "epoch": 0}]

    @action()
    def next_epoch(self, s: State) -> None:
        s.next.epoch = s.epoch.value + 1


def test_a_parameter_that_bounds_a_sequence_stays_bounded() -> None:
    _, parameters = unbounded(_Journal, {"length": 4}, [])
    assert parameters == {"length": 4, "last": BEYOND}
