"""KIP-320's properties are inductive, and each rule that the proof rests on breaks it when off."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from highwater.checker.base.processes import cores
from highwater.checker.engines.solver import induction
from highwater.checker.engines.solver.induction import helpers
from highwater.checker.scenarios import catalogue
from highwater.model.language import Model
from tests.slow import largest, often, slow
from tests.solver.controllers import broken

DEFINITION = catalogue.load("truncation")
KIP_320 = DEFINITION.protocol.profiles["kip_320"].rules

HOLES: dict[str, tuple[str, str]] = {
    # KIP-279. The common prefix of both logs is not found, so truncation removes too much or too little.
    "matching_tail": ("become_follower", "weak_isr strong_isr isr_members_hold_what_is_committed"),
    # A follower joins at the HWM of a leader that does not yet know what was committed before it.
    "join_at_epoch_start": ("leader_expand_isr", "strong_isr isr_members_hold_what_is_committed"),
    # A replica in another leader epoch counts for the HWM.
    "fenced_high_watermark": (
        "leader_advance_hwm",
        "weak_isr strong_isr hwm_is_within_the_log isr_members_hold_what_is_committed leaders_hold_what_is_committed",
    ),
    # A replica in another leader epoch, with a different log, joins because its log is long enough.
    "fenced_join": (
        "leader_expand_isr",
        "weak_isr strong_isr isr_members_hold_what_is_committed leaders_hold_what_is_committed",
    ),
    # Records of another log are appended.
    "fenced_fetch": (
        "follower_fetch",
        "epochs_in_logs_are_monotone logs_match isr_members_hold_what_is_committed leaders_hold_what_is_committed",
    ),
}
"""Rule off → an action and the properties that it then breaks, separated by spaces."""

HARMLESS = {"fenced_shrink"}
"""With it off, a leader removes fewer replicas from the ISR, which is safe."""

WITHOUT_HELPERS = {"fenced_truncation"}
"""The helper invariants assume it: a follower's leader epoch is one that its leader has reached."""


def kip_320(replicas: int, records: int, epochs: int, off: Collection[str] = ()) -> Model:
    """The protocol with logs of ``records`` records and leader epochs 0 to ``epochs``."""
    bounds = {"replicas": replicas, "log_size": records, "max_records": records, "max_leader_epoch": epochs}
    rules = KIP_320 - set(off)
    invariants = (*DEFINITION.invariants, *helpers(DEFINITION).invariants)
    return Model(
        DEFINITION.protocol(bounds, rules), [i for i in invariants if i.rule is None or i.rule in rules]
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


def test_every_rule_is_in_the_table() -> None:
    assert set(HOLES) | HARMLESS | WITHOUT_HELPERS == KIP_320


@slow("a proof with each rule off; the controller has a fast test")
@pytest.mark.parametrize("rule", sorted(KIP_320)[:: often(2, 1)])
def test_a_hole_breaks_the_proofs_that_rest_on_the_rule(rule: str) -> None:
    result = induction.prove(kip_320(3, 2, 2, [rule]), workers=cores())
    assert result.stopped_by is None
    if rule in WITHOUT_HELPERS:
        assert {"weak_isr", "strong_isr"} == set(broken(result))
    else:
        action, names = HOLES.get(rule, ("", ""))
        assert broken(result) == {name: {action} for name in names.split()}
