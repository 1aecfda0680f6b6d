"""What must hold of the metadata quorum, and what must happen."""

from highwater.invariants.quorum import denials, fetches, knowledge, message_denials, steps, votes
from highwater.invariants.quorum.liveness import LIVENESS
from highwater.invariants.quorum.safety import INVARIANTS, STEP_PROPERTIES

DENIALS = (*denials.DENIALS, *message_denials.DENIALS)
WATCHED = (*knowledge.KNOWLEDGE, *fetches.FETCHES, *steps.WATCHED, *votes.VOTES)

__all__ = ["DENIALS", "INVARIANTS", "LIVENESS", "STEP_PROPERTIES", "WATCHED"]
