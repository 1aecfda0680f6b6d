"""Properties of the protocol ``replication`` and of its parts.

In: states of the cluster, the controller, a topic or a plan. Out: invariants, step properties, liveness, goals and
helpers of proofs. Statements that several protocols share are in ``invariants/statements.py``.
"""

from highwater.invariants.replication import (
    cluster,
    commits,
    enabled,
    knowledge,
    promise,
    reachable,
    sentences,
    steps,
)
from highwater.invariants.statements import defined, goals
from highwater.model.language import Invariant, Liveness, StepProperty

INVARIANTS = defined(Invariant, cluster, sentences, enabled)
STEP_PROPERTIES = (promise.keeps_the_promise, *steps.OF_EPOCHS, *defined(StepProperty, commits, sentences))
LIVENESS = defined(Liveness, reachable)
REACHABLE = goals(reachable)
HELPERS = defined(Invariant, knowledge, commits, promise)
"""Invariants that make the others inductive. They are proved together with them."""
HELPER_STEPS = defined(StepProperty, knowledge)
"""Step properties that only proofs check."""
