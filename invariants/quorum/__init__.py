"""What must hold of the metadata quorum, and what must happen."""

from highwater.invariants.quorum import knowledge, safety
from highwater.invariants.quorum.liveness import LIVENESS
from highwater.invariants.quorum.steps import WATCHED

INVARIANTS = (*safety.INVARIANTS, *knowledge.INVARIANTS)

__all__ = ["INVARIANTS", "LIVENESS", "WATCHED"]
