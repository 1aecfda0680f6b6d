"""Properties of the protocol ``replication`` and of its parts."""

from highwater.invariants.replication import cluster, commits, liveness, reachable, sentences, steps
from highwater.invariants.replication.promise import keeps_the_promise
from highwater.invariants.statements import defined, goals
from highwater.model.language import Invariant, Liveness, StepProperty

INVARIANTS = defined(Invariant, cluster, sentences)
STEP_PROPERTIES = (keeps_the_promise, *steps.OF_EPOCHS, *defined(StepProperty, commits, sentences))
LIVENESS = defined(Liveness, liveness)
REACHABLE = goals(reachable)
