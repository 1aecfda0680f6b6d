"""Comparison of an implementation with the model, operation by operation.

``Lockstep`` alone needs no other package. The machine that draws operations
(``highwater.checker.testing.conformance.stateful``) needs the extra ``test``.

In: an adapter of the implementation, and a contract. Out: a Mismatch with the operations. It may know no other protocol
than that of ``kafka.py``.
"""

from highwater.checker.testing.conformance.lockstep import (
    Adapter,
    AdapterError,
    Contract,
    Lockstep,
    Mismatch,
    Outcome,
)
from highwater.checker.testing.conformance.pipe import PipeAdapter

__all__ = ["Adapter", "AdapterError", "Contract", "Lockstep", "Mismatch", "Outcome", "PipeAdapter"]
