"""The controller is proved for any number of brokers; each rule that is off breaks the proof."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import pytest

from highwater import checker
from highwater.checker.base.processes import cores
from highwater.checker.engines.solver.any_size import Obligations, OpenTrace, ask, decide, trace
from highwater.checker.engines.solver.terms import Limits
from highwater.model.language import Model
from highwater.model.language.any_size import STAND_INS
from tests.checker.schema import problems
from tests.command import highwater
from tests.slow import slow
from tests.solver.controller_holes import HOLES
from tests.solver.controllers import DEFINITION, HELPERS, STEPS, _unbounded
from tests.solver.sizes import differences
from tests.solver.test_any_size import answer

KIP_966 = DEFINITION.protocol.profiles["kip_966"].rules
INVARIANTS = (*DEFINITION.invariants, *HELPERS.invariants)
SIZES = {"reassignments": 1, "unclean_election": 2, "leads_elsewhere": 1, "max_min_isr": 4}
SCENARIO = "replication/controller/large-unclean-recovery"


def _traced(off: Collection[str] = ()) -> Obligations:
    kind, chosen = _unbounded(tuple(sorted(SIZES.items())), "kip_966")
    return trace(kind, chosen, KIP_966 - set(off), INVARIANTS, STEPS)


def test_every_action_is_the_same_for_any_number_of_brokers() -> None:
    traced = _traced()
    assert traced.irregular == {}
    assert len(traced.actions) == 12
    assert len(traced.obligations) > 400


@slow("decides every obligation; fast: that there are obligations")
def test_the_controller_is_proved_for_any_number_of_brokers() -> None:
    result = decide(_traced(), Limits(), cores())
    assert [d.obligation.name for d in result.failures] == []
    assert result.proved


@slow("switches off each set of rules; fast for a lock service")
@pytest.mark.parametrize("off", HOLES, ids=",".join)
def test_each_rule_is_needed(off: tuple[str, ...]) -> None:
    traced, quick, broken = _traced(off), [((0, 1, 2), 5.0)], set()
    for obligation in traced.obligations:
        name = obligation.property
        if name not in broken and obligation.action in HOLES[off].get(name, ()):
            broken |= {name} if ask(obligation, Limits(), quick).answer != "unsat" else set()
    assert broken == set(HOLES[off])


@slow("compares the controller; fast for a lock service")
@pytest.mark.parametrize("brokers", [1, 2])
def test_the_trace_is_the_model_at_each_size(brokers: int) -> None:
    sizes = {**SIZES, "brokers": brokers, "replication_factor": brokers, "replication_factor_changes": 1}
    sizes["max_min_isr"] = brokers + 1
    own = [i for i in INVARIANTS if i.rule is None or i.rule in KIP_966]
    traced = OpenTrace(DEFINITION.protocol, sizes, KIP_966, own, STEPS, STAND_INS[0])
    model = Model(DEFINITION.protocol(sizes, KIP_966), own, step_properties=STEPS)
    assert differences(traced, model, brokers) == []


@slow("asks the second solver about the controller; fast for a lock service")
def test_a_second_solver_decides_obligations_of_elections() -> None:
    cvc5 = pytest.importorskip("cvc5", reason="the second solver is an extra of the tests")
    own = [o for o in _traced().obligations if o.action in ("recover_uncleanly", "change_min_isr")]
    assert {answer(cvc5, o.text((0,) if "alone" not in o.name else (0, 1))) for o in own} == {"unsat"}


@slow("runs the command on the controller; the parts have tests of their own")
def test_the_command_names_the_bounds(tmp_path: Path) -> None:
    run = highwater(
        "prove", SCENARIO, "--induction", "--brokers", "any", "--epochs", "unbounded", "--json", "-", "--smt", tmp_path,
        "--property", "leader_is_active", "--no-helpers", "--limit-seconds", 30,
    )  # fmt: skip
    schema = json.loads((Path(checker.__file__).parent / "report/proof.schema.json").read_text())
    (result,) = run.results
    assert problems(run.results, schema) == []
    assert result["question"] == "any_size"
    assert result["verdict"] in ("inconclusive", "not_inductive")  # it needs the other invariants
    assert "brokers at most 65521" in result["bounds"]
    assert {p.stem for p in tmp_path.iterdir()} >= {o["name"] for o in result["obligations"]}
