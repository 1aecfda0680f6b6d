"""KIP-320's properties are inductive, with the helper invariants."""

from __future__ import annotations

import pytest

from highwater.checker.base.processes import cores
from highwater.checker.engines.solver import induction
from highwater.checker.engines.solver.induction import helpers
from highwater.checker.scenarios import catalogue
from highwater.model.language import Model
from tests.slow import largest, slow
from tests.solver.controllers import broken

DEFINITION = catalogue.load("truncation")
KIP_320 = DEFINITION.protocol.profiles["kip_320"].rules


def kip_320(replicas: int, records: int, epochs: int) -> Model:
    """The protocol with logs of ``records`` records and leader epochs 0 to ``epochs``."""
    bounds = {"replicas": replicas, "log_size": records, "max_records": records, "max_leader_epoch": epochs}
    invariants = (*DEFINITION.invariants, *helpers(DEFINITION).invariants)
    return Model(
        DEFINITION.protocol(bounds, KIP_320), [i for i in invariants if i.rule is None or i.rule in KIP_320]
    )


@pytest.mark.parametrize(
    ("replicas", "records", "epochs"),
    [
        (2, 2, 1),
        pytest.param(3, 3, 3, marks=slow("the proof for a larger size; fast for the least")),
        *(
            pytest.param(*sizes, marks=largest("proofs for still larger sizes"))
            for sizes in ((3, 4, 5), (4, 3, 3))
        ),
    ],
)
def test_isr_members_hold_what_is_committed(replicas: int, records: int, epochs: int) -> None:
    result = induction.prove(kip_320(replicas, records, epochs), workers=cores())
    assert result.failures == []
    assert result.proved
    assert result.never == []
    assert {"weak_isr", "strong_isr"} <= {v.property for v in result.verdicts}


def test_without_helpers_it_is_not_inductive() -> None:
    model = kip_320(2, 2, 1)
    model.properties = [p for p in model.properties if p.name in ("weak_isr", "strong_isr")]
    result = induction.prove(model, known=helpers(DEFINITION).invariants, actions=["leader_advance_hwm"])
    assert set(broken(result)) == {"weak_isr", "strong_isr"}
    assert all(v.failure and v.failure.excluded_by for v in result.failures)
