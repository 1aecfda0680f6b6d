"""What must hold of the replication of partitions."""

from highwater.invariants.replication import (
    cluster,
    commits,
    exchange_steps,
    features,
    life_steps,
    sentences,
    steps,
    told_steps,
)
from highwater.invariants.replication.liveness import LIVENESS
from highwater.invariants.replication.promise import keeps_the_promise
from highwater.invariants.replication.reachable import REACHABLE

INVARIANTS = (*cluster.INVARIANTS, *sentences.STATES)
STEP_PROPERTIES = (keeps_the_promise, *steps.OF_EPOCHS, *commits.STEPS, *features.STEPS, *sentences.STEPS)
WATCHED = (*exchange_steps.WATCHED, *life_steps.WATCHED, *told_steps.WATCHED)

__all__ = ["INVARIANTS", "LIVENESS", "REACHABLE", "STEP_PROPERTIES", "WATCHED"]
