"""What brokers' logs are held against, as functions of plain values: each traced once, when it is first asked.

There is no rule here. What a rule says stands in model/, what is promised in invariants/statements.py; this module says
which values it is asked with.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from highwater.invariants import statements
from highwater.model.language import Index, Int, Option, Set, Struct
from highwater.model.language.function import Function
from highwater.model.language.types import Type
from highwater.model.language.values import Number, StructValue, Truth
from highwater.model.replication import logs
from highwater.model.replication.controller import elections
from highwater.model.replication.controller.types import MAX_INT, MAX_LONG


class AskedRule:
    """A rule whose answer is yes or no, asked of plain values by the names of its arguments."""

    def __init__(self, rule: Callable[..., Truth], **inputs: Type) -> None:
        self._rule, self._inputs = rule, inputs

    @cached_property
    def _function(self) -> Function:
        return Function(self._rule, **self._inputs)

    def __call__(self, **values: Any) -> bool:
        """The answer. Raises ValueError where a value is not one of its type."""
        answer: bool = self._function(**values)
        return answer


def _is_clean(partition: StructValue, leader: Number) -> Truth:
    return elections.is_clean(elections.electable(partition), leader)


_COUNT = Int(0, MAX_INT)
_OFFSET = Int(-1, MAX_LONG)
"""-1 stands for an offset that is not known: nothing is known to be reached."""
_LOG = Struct("ReplicaLog", last_epoch=Option(Int(0, MAX_INT)), end=_OFFSET)
_ONE = Index("broker", 1)
"""A cluster that is looked at for one broker's sake has no others."""

is_held = AskedRule(logs.is_held, end=_OFFSET, hwm=_OFFSET)
end_is_told = AskedRule(logs.end_is_told, hwm=_OFFSET, epoch_start=_OFFSET)
hwm_never_moves_back = AskedRule(statements.hwm_never_moves_back.function, before=_OFFSET, after=_OFFSET)
hwm_stands_under_min_isr = AskedRule(
    statements.hwm_stands_under_min_isr.function, isr_size=_COUNT, min_isr=_COUNT
)
hwm_waits_for_isr = AskedRule(statements.hwm_waits_for_isr.function, leo=_OFFSET, hwm=_OFFSET)
isr_joined_caught_up = AskedRule(
    statements.isr_joined_caught_up.function, leo=_OFFSET, hwm=_OFFSET, epoch_start=_OFFSET
)
leader_answers_in_its_epoch = AskedRule(
    statements.leader_answers_in_its_epoch.function, asked=_OFFSET, leads=_OFFSET
)
stale_epochs_are_refused = AskedRule(
    statements.stale_epochs_are_refused.function, sent=_OFFSET, known=_OFFSET
)
proposals_name_fetched_epochs = AskedRule(
    statements.proposals_name_fetched_epochs.function, named=_OFFSET, fetched=_OFFSET
)
one_proposal_is_under_way = AskedRule(statements.one_proposal_is_under_way.function, under_way=_COUNT)
acknowledged_has_copies = AskedRule(
    statements.acknowledged_has_copies.function, hwm=_OFFSET, offset=_OFFSET, copies=_COUNT, min_isr=_COUNT
)
is_better_log = AskedRule(logs.is_better_log, theirs=_LOG, mine=_LOG)
_clean = AskedRule(_is_clean, partition=Struct("Partition", isr=Set(_ONE), elr=Set(_ONE)), leader=_ONE)


def is_clean(in_isr: bool, in_elr: bool) -> bool:
    """966.13. Whether an election is clean, by whether its leader was in the ISR, or in the ELR, before it."""
    broker = (0,)
    return _clean(partition={"isr": broker * in_isr, "elr": broker * in_elr}, leader=0)
