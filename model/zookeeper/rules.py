"""The rules of KIP-380 as switches, the fences that they stand beside, and the profiles before and after."""

from __future__ import annotations

from highwater.model.language import Profile, Rule

KIP_380 = {
    "epoch_per_registration": Rule(
        "380.1",
        "Each registration of a broker has a broker epoch, and it grows. Off: all have the same, as versions of a "
        "new node have.",
    ),
    "leader_and_isr_epoch_check": Rule(
        "380.2", "A broker refuses a LeaderAndIsr with a lower broker epoch than its own: STALE_BROKER_EPOCH."
    ),
    "update_metadata_epoch_check": Rule(
        "380.2",
        "A broker refuses an UpdateMetadata with a lower broker epoch than its own: STALE_BROKER_EPOCH.",
    ),
    "stop_replica_epoch_check": Rule(
        "380.2", "A broker refuses a StopReplica with a lower broker epoch than its own: STALE_BROKER_EPOCH."
    ),
    "newer_epoch_is_obeyed": Rule(
        "380.2",
        "A broker obeys a request with a higher broker epoch than its own: the controller can learn of a "
        "registration before the broker does. Off: it refuses every other epoch.",
    ),
    "shutdown_epoch_check": Rule(
        "380.3",
        "The controller refuses a ControlledShutdown with a lower broker epoch than it knows: STALE_BROKER_EPOCH.",
    ),
    "missing_epoch_is_obeyed": Rule(
        "380.2, 380.3",
        "A request of a version without broker epoch is obeyed as before. Off: its −1 counts as an epoch lower than "
        "any.",
    ),
    "bounce_detection": Rule(
        "380.4",
        "The controller compares broker epochs in the broker list: a changed epoch is a bounced broker. Off: it "
        "compares which brokers there are.",
    ),
    "bounced_broker_fails_first": Rule(
        "380.4", "A bounced broker is handled as failed and then as new. Off: as new only."
    ),
}
"""What the proposal adds."""

FENCES = {
    "controller_epoch_check": Rule(
        "ZK1",
        "A broker refuses a request with a lower controller epoch than it has seen since it started.",
    ),
    "leader_epoch_check": Rule(
        "ZK2", "A broker takes a LeaderAndIsr only with a higher leader epoch than its replica's."
    ),
    "decision_bumps_leader_epoch": Rule(
        "ZK3", "Every change of leader or ISR by the controller has the next leader epoch."
    ),
    "controller_epoch_fencing": Rule(
        "ZK4",
        "ZooKeeper takes a controller's write only while its epoch is the one of the controller epoch node; a "
        "controller that is refused resigns.",
    ),
}
"""What was there before it."""

RULES = {**KIP_380, **FENCES}

_BEFORE = (
    "controller_epoch_check", "leader_epoch_check", "decision_bumps_leader_epoch", "controller_epoch_fencing",
)  # fmt: skip

PROFILES = {
    "kip_380": Profile.of(
        "KIP-380 (Kafka 2.2)",
        *_BEFORE, "epoch_per_registration", "leader_and_isr_epoch_check", "update_metadata_epoch_check",
        "stop_replica_epoch_check", "newer_epoch_is_obeyed", "shutdown_epoch_check", "missing_epoch_is_obeyed",
        "bounce_detection", "bounced_broker_fails_first",
    ),
    "before_kip_380": Profile.of(
        "controller epoch and leader epoch are compared, broker epochs do not exist", *_BEFORE
    ),
}  # fmt: skip
"""A new rule is on only where a profile names it."""
