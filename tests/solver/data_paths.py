"""The message-level protocol for proofs: all faults that the proof covers, and unbounded epochs."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from highwater.checker.base.processes import cores
from highwater.checker.engines.solver import induction
from highwater.checker.engines.solver.induction import Helpers, InductionResult, helpers
from highwater.checker.engines.solver.terms import unbounded
from highwater.checker.scenarios import catalogue
from highwater.model.language import Model, Protocol

DEFINITION = catalogue.load("replication")
HELPERS: Helpers = helpers(DEFINITION)
KIP_966 = DEFINITION.protocol.profiles["kip_966"].rules

NOT_PROVED = {
    # It holds only for as many losses as there are spare copies; no helper invariant counts copies.
    "committed_records_survive",
    # No helper invariant relates a fetch response to the log that its leader had at the time.
    "truncation_ends_where_both_logs_agree",
    # Not inductive: no helper invariant excludes the states from which `replay_metadata` breaks it.
    "metadata_leaves_replicas_their_logs",
}
STEPS = tuple(p for p in (*DEFINITION.step_properties, *HELPERS.steps) if p.name not in NOT_PROVED)

CRASHES = ("crashes", "lossy_crashes", "disk_losses")
FAULTS = {
    # Properties only ask whether there was a crash; two crashes allow another after the first.
    **dict.fromkeys(CRASHES, 2),
    **dict.fromkeys(("fencings", "controlled_shutdowns", "shrinks", "weak_writes"), 1),
    "flushes": 1,
}


@cache
def _unbounded(chosen: tuple[tuple[str, int], ...]) -> tuple[type[Protocol], dict[str, int]]:
    return unbounded(DEFINITION.protocol, dict(chosen), KIP_966)


def data_path(brokers: int, records: int, min_isr: int = 2, without: Collection[str] = ()) -> Model:
    """KIP-966 with its proved properties and helpers except ``without``."""
    sizes = {"brokers": brokers, "replication_factor": brokers, "records": records}
    isr = {"initial_isr": max(2, min_isr), "min_isr": min_isr}
    protocol, chosen = _unbounded(tuple(sorted({**FAULTS, **sizes, **isr}.items())))
    left = {*NOT_PROVED, *without}
    invariants = [i for i in (*DEFINITION.invariants, *HELPERS.invariants) if i.name not in left]
    own = [i for i in invariants if i.rule is None or i.rule in KIP_966]
    return Model(protocol(chosen, KIP_966), own, step_properties=STEPS)


def prove(model: Model, actions: Collection[str] | None = None) -> InductionResult:
    """The proof, step properties included."""
    return induction.prove(model, actions=actions, workers=cores())
