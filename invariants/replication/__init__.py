"""Properties of the protocol ``replication`` and of its parts."""

from highwater.invariants.replication import cluster, commits, sentences, steps
from highwater.invariants.replication.liveness import LIVENESS
from highwater.invariants.replication.promise import keeps_the_promise
from highwater.invariants.replication.reachable import REACHABLE

INVARIANTS = (*cluster.INVARIANTS, *sentences.STATES)
STEP_PROPERTIES = (keeps_the_promise, *steps.OF_EPOCHS, *commits.STEPS, *sentences.STEPS)

__all__ = ["INVARIANTS", "LIVENESS", "REACHABLE", "STEP_PROPERTIES"]
