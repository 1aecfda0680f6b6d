"""What must hold of the metadata quorum, and what must happen."""

from highwater.invariants.quorum import fetches, knowledge, steps, votes
from highwater.invariants.quorum.liveness import LIVENESS
from highwater.invariants.quorum.reachable import REACHABLE
from highwater.invariants.quorum.safety import INVARIANTS, STEP_PROPERTIES

WATCHED = (*knowledge.KNOWLEDGE, *fetches.FETCHES, *steps.WATCHED, *votes.VOTES)

__all__ = ["INVARIANTS", "LIVENESS", "REACHABLE", "STEP_PROPERTIES", "WATCHED"]
