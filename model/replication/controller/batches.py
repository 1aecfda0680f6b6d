"""In which order the records of one decision stand in its batch.

Order matters: what reads the metadata log sees the partitions of a broker that lost its log change before
it sees the new registration (966.5), and a broker that is unfenced before it leads.
"""

from __future__ import annotations

IN_ISR, IN_ELR, LEADERLESS = (
    "partitions with the broker in the ISR",
    "in the ELR",
    "partitions without a leader",
)
BROKER, IN_DIRECTORY = "the broker", "partitions with a replica in the directory"

FENCING = (IN_ISR, BROKER)
"""B8. Fencing: the partitions first, then the broker."""

UNFENCING = (BROKER, LEADERLESS)
"""966.5. Unfencing: the broker first, then the partitions without a leader."""

CONTROLLED_SHUTDOWN = (BROKER, IN_ISR)
"""841.5. Controlled shutdown: the broker first, then the partitions that it leaves."""

REGISTRATION = (IN_ISR, IN_ELR, BROKER)
"""966.5. Registration after an unclean shutdown: the partitions with the broker in the ISR, those with it in the ELR,
then the broker. After a clean one it is as with fencing."""

REMOVAL = (IN_ISR, IN_ELR, BROKER)
"""B8. Removal from the cluster: the partitions with it in the ISR, those with it in the ELR, then the broker."""

DIRECTORY_LOSS = (IN_DIRECTORY, BROKER)
"""858.1. A log directory fails: the partitions of each that is lost, then the broker, with those that it has left."""

FAILURE_IS_ANSWERED = frozenset({"alterPartitionReassignments"})
"""Kafka 4.2. Requests whose failure is an answer, UNKNOWN_SERVER_ERROR. Any other decision that throws makes the
controller resign, and another one that knows nothing but the log goes on."""

HEARTBEAT = {
    "FENCED": FENCING,
    "SHUTDOWN_NOW": FENCING,
    "UNFENCED": UNFENCING,
    "CONTROLLED_SHUTDOWN": CONTROLLED_SHUTDOWN,
}
"""841.5. A heartbeat, by the state that it takes the broker to."""
