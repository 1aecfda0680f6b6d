"""What brokers and controllers can do beside what every scenario has: parameters, 0 unless a scenario sets them.

They allow more, and cost states. Where the model allows less than a broker without them, docs/replication.md says.
"""

from __future__ import annotations

from highwater.model.language import Parameter

FREEDOMS = {
    "shutdown_requests": Parameter(
        0, 0, 1, "whether a broker knows of its shutdown before the controller does"
    ),
    "many_at_once": Parameter(0, 0, 1, "whether an AlterPartition can change several members of the ISR"),
    "late_proposals": Parameter(
        0,
        0,
        1,
        "whether an AlterPartition can arrive after its sender has given it up, and sent another one",
    ),
    "former_controller": Parameter(
        0, 0, 1, "whether a controller that was replaced, and does not know, can answer an AlterPartition"
    ),
    "old_checkpoints": Parameter(
        0, 0, 1, "whether a broker that has crashed can come back with an older HWM than it had"
    ),
    "old_disks": Parameter(
        0, 0, 1, "whether a broker that is down can get an older copy of its disk, with its CleanShutdownFile"
    ),
    "risky_elections": Parameter(
        1, 0, 1, "whether an operator asks for UNCLEAN, DESIGNATION and LONGEST_LOG_AGGRESSIVE elections"
    ),
    "waiting_producers": Parameter(
        0, 0, 1, "whether a producer waits at its leader beyond the epoch that it wrote in"
    ),
}
"""The parameters, each with what it lets happen."""
