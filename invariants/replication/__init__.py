"""What must hold of the replication of partitions."""

from highwater.invariants.replication import (
    cluster,
    commits,
    denials,
    exchange_denials,
    exchange_steps,
    features,
    life_steps,
    sentences,
    steps,
    told_steps,
)
from highwater.invariants.replication.liveness import LIVENESS
from highwater.invariants.replication.promise import keeps_the_promise

INVARIANTS = (*cluster.INVARIANTS, *sentences.STATES)
STEP_PROPERTIES = (keeps_the_promise, *steps.OF_EPOCHS, *commits.STEPS, *features.STEPS, *sentences.STEPS)
DENIALS = (*denials.DENIALS, *exchange_denials.DENIALS)
WATCHED = (*exchange_steps.WATCHED, *life_steps.WATCHED, *told_steps.WATCHED)

__all__ = ["DENIALS", "INVARIANTS", "LIVENESS", "STEP_PROPERTIES", "WATCHED"]
