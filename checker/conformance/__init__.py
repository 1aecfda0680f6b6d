"""An implementation held against the model, operation by operation.

``Lockstep`` alone needs no other package; the machine that draws operations (``checker.conformance.stateful``) needs
the extra ``test``.
"""

from checker.conformance.adapter import Adapter, AdapterError, Contract, Outcome
from checker.conformance.lockstep import Lockstep, Mismatch
from checker.conformance.pipe import PipeAdapter

__all__ = ["Adapter", "AdapterError", "Contract", "Lockstep", "Mismatch", "Outcome", "PipeAdapter"]
