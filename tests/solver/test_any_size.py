"""Proofs for any size: a lock service for any number of clients, and what must not be proved."""

from __future__ import annotations

import re

import pytest

from highwater.checker.engines.solver.any_size import OpenTrace, trace
from highwater.checker.engines.solver.smt import Obligation
from highwater.model.language import Model
from highwater.model.language.any_size import STAND_INS
from tests.solver.locks import INVARIANTS, IRREGULAR, WRONG, Lock, proof, tokens_never_fall, unproved, wrong
from tests.solver.sizes import differences

HOLES = {
    "grants_when_free": {("grant", "the_holder_has_the_lock")},
    "grants_are_used_once": {("enter", "a_grant_is_used_once")},
    "tokens_grow": {("grant", "tokens_are_issued")},
    "holder_leaves": {("leave", "the_holder_has_the_lock")},
}
"""For each rule, obligations that fail without it."""


def test_the_lock_service_is_proved_for_any_number_of_clients() -> None:
    result = proof()
    assert unproved(result) == set()
    assert result.traced.irregular == {}
    assert result.proved
    assert set(result.traced.actions) == {"ask", "grant", "enter", "leave"}


@pytest.mark.parametrize("rule", HOLES)
def test_each_rule_is_needed(rule: str) -> None:
    result = proof(off=rule)
    assert not result.proved
    assert unproved(result) >= HOLES[rule]


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_invariant_is_not_proved(name: str) -> None:
    result = proof(more=(wrong(name),))
    assert not result.proved
    assert (WRONG[name][1], name) in unproved(result)


@pytest.mark.parametrize("kind", IRREGULAR)
def test_an_action_that_depends_on_the_number_of_clients_is_named(kind: type[Lock]) -> None:
    result = proof(kind)
    assert set(result.traced.irregular) == {IRREGULAR[kind]}
    assert not result.proved


@pytest.mark.parametrize("clients", [1, 2, 3])
def test_the_trace_is_the_model_at_each_size(clients: int) -> None:
    rules = set(Lock.rules)
    traced = OpenTrace(Lock, {}, rules, INVARIANTS, [tokens_never_fall], STAND_INS[0])
    model = Model(Lock({"clients": clients}, rules), INVARIANTS, step_properties=[tokens_never_fall])
    assert differences(traced, model, clients) == []


def _obligations() -> tuple[Obligation, ...]:
    return trace(Lock, {}, Lock.rules, INVARIANTS, [tokens_never_fall]).obligations


def test_a_second_solver_decides_the_obligations() -> None:
    cvc5 = pytest.importorskip("cvc5", reason="the second solver is an extra of the tests")
    assert {answer(cvc5, o.text()) for o in _obligations()} == {"unsat"}


def test_no_premise_is_false() -> None:
    """Without its conclusion, no obligation is refuted; so nothing is proved from false."""
    z3 = pytest.importorskip("z3")
    for obligation in _obligations():
        solver = z3.Solver()
        lines = obligation.lines[:-1]
        assert re.fullmatch(r"\(assert \(not .*\)\)", obligation.lines[-1])
        facts = [f"(assert {fact})" for fact, _ in obligation.facts]
        solver.from_string("\n".join([*lines, *facts, "(assert (= N 2))"]))
        assert str(solver.check()) == "sat", obligation.name


def answer(cvc5: object, text: str) -> str:
    """The answer of cvc5 to an SMT-LIB text."""
    solver = cvc5.Solver()  # type: ignore[attr-defined]
    solver.setOption("tlimit-per", "60000")
    parser = cvc5.InputParser(solver)  # type: ignore[attr-defined]
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "obligation")  # type: ignore[attr-defined]
    symbols = parser.getSymbolManager()
    found = ""
    while not (command := parser.nextCommand()).isNull():
        found += command.invoke(solver, symbols)
    return found.strip()
