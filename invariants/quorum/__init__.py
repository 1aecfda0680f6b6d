"""What must hold of the metadata quorum, and what must happen."""

from highwater.invariants.quorum import knowledge, steps, votes
from highwater.invariants.quorum.denials import DENIALS
from highwater.invariants.quorum.liveness import LIVENESS
from highwater.invariants.quorum.safety import INVARIANTS, STEP_PROPERTIES

WATCHED = (*knowledge.KNOWLEDGE, *steps.WATCHED, *votes.VOTES)

__all__ = ["DENIALS", "INVARIANTS", "LIVENESS", "STEP_PROPERTIES", "WATCHED"]
