"""Words on the known defects in ZooKeeper mode: what goes wrong in each, for their gallery."""

from __future__ import annotations

from docs.pages.gallery import Gallery

_GROUPS = (
    (
        "KIP-380: a bounce that nobody sees",
        ("before-kip-380-bounce", "defect-unseen-bounce", "defect-new-only", "defect-same-epochs"),
    ),
    (
        "KIP-380: requests for a former generation",
        (
            "before-kip-380",
            "defect-stop-replica",
            "defect-leader-and-isr",
            "defect-leads-again",
            "defect-update-metadata",
            "defect-unlearned-epoch",
            "defect-partial-leader-and-isr",
            "defect-late-deletion",
        ),
    ),
    ("KIP-380: a late ControlledShutdown", ("defect-late-shutdown", "defect-barred")),
    (
        "Controller epoch and leader epoch",
        (
            "defect-former-controller",
            "defect-zombie-controller",
            "defect-untold-decision",
            "defect-late-copy",
            "defect-same-leader-epoch",
        ),
    ),
    ("What KIP-380 leaves open", ("gap-failover", "gap-late-metadata", "gap-late-deletion")),
)
"""The defects and gaps by what they are about."""

_NOTES = {
    "before-kip-380-bounce": (
        "The broker was in the list when the controller looked last, and it is when it looks again. So nothing has "
        "happened: the new process, which knows of no partition, is told of none."
    ),
    "defect-unseen-bounce": (
        "380.4. The same with requests that carry broker epochs. They do not help, on the contrary: whatever the "
        "controller sends later has the epoch of the former generation and is refused."
    ),
    "defect-new-only": (
        "380.4. The bounce is seen, but the controller only tells the new generation what it told the old one. A "
        "leader leads on in the same leader epoch, with a log that may have lost its end."
    ),
    "defect-same-epochs": (
        "380.1. All other rules compare broker epochs; if those do not grow, none of them sees anything. The data "
        "version of a node, which starts anew with each node, would be such an epoch."
    ),
    "before-kip-380": (
        "Both of what the proposal starts from. A restarted broker's replica is stopped by what was meant to end the "
        "former process; and the former process's request to be relieved takes leadership from the one that is "
        "there to stay."
    ),
    "defect-stop-replica": (
        "380.2. The controller answers a ControlledShutdown with a StopReplica; by then the broker is back. The new "
        "connection is faster: the replica is started, then stopped, and the controller does not know."
    ),
    "defect-leader-and-isr": (
        "380.2. The first LeaderAndIsr that a process takes is to name all its partitions, as it starts the "
        "checkpoints of their high watermarks. This one was made for another process."
    ),
    "defect-leads-again": (
        "380.2. The same request can make a broker leader: in a leader epoch in which its former process led, "
        "before the controller has seen that it was away."
    ),
    "defect-update-metadata": (
        "380.2. The new process tells clients what was true for the former one; nothing else in the request is "
        "compared that could tell."
    ),
    "defect-unlearned-epoch": (
        "380.2 says lower, not other. After the end of a session ZooKeeper has the new registration before the broker "
        "knows its epoch. The controller is faster; if the broker refuses what is meant for its own new generation, "
        "nobody sends it again."
    ),
    "defect-late-shutdown": (
        "380.3. The ControlledShutdown is sent again as its answer was late, and arrives when the broker is back and "
        "leads."
    ),
    "defect-barred": (
        "380.3. And who counts as shutting down is not elected before it has failed. Here it is the only one in the "
        "ISR that lives: the partition has no leader, though nothing is in the way."
    ),
    "defect-former-controller": (
        "A controller that was replaced has requests under way. Controller epochs keep them from those who have heard "
        "its successor."
    ),
    "defect-zombie-controller": (
        "ZK4. Brokers compare controller epochs; ZooKeeper did not. What the former controller writes is "
        "there, and the active one does not know."
    ),
    "defect-untold-decision": (
        "ZK4. What follows from it: brokers refuse the former controller's requests, and the successor has "
        "nothing to tell them. The leader in ZooKeeper never hears that it leads."
    ),
    "defect-late-copy": (
        "The leader epoch is what makes order among LeaderAndIsr of one controller to one generation; over a "
        "reconnect a copy of an older one can arrive last."
    ),
    "defect-same-leader-epoch": (
        "And it can do so only if each decision has its own. A broker that is there already does not take another "
        "leader in the leader epoch that it is in; one that starts does."
    ),
    "defect-partial-leader-and-isr": (
        "380.2, with two partitions. A broker shuts down and is back before the controller hears of it. What the "
        "controller then decides is about the partition that it led, and for its former self. It is the first that "
        "the new process hears: from now on it writes checkpoints, of the replicas that it knows of. The high "
        "watermark of the other partition is gone, and starts from 0 when its LeaderAndIsr comes."
    ),
    "defect-late-deletion": (
        "380.2. The replica was taken away while the broker was down, and given back to the new process, which is "
        "in the ISR by now. The StopReplica for the former process comes late, and deletes the log of an ISR "
        "member."
    ),
    "gap-late-deletion": (
        "The same within one generation: a copy of a StopReplica, sent again on a new connection, arrives after the "
        "replica was given back. Its broker epoch is right. Only an epoch of the partition tells that it is old, "
        "which KIP-570 puts into the request."
    ),
    "gap-failover": (
        "The bounce is over when the successor reads the list for the first time. It sees a live leader and no "
        "reason to elect. The former controller could have told: its list has the old epoch; but it is gone."
    ),
    "gap-late-metadata": (
        "UpdateMetadata has no leader epoch check in a broker of ZooKeeper mode, and KIP-380 is about generations: "
        "both copies are for this one."
    ),
}
"""What closes the defect and how to read the run, in Markdown."""

_HEAD = """\
# Gallery of defects in ZooKeeper mode

Generated by `make docs` from `model/zookeeper/scenarios`; do not edit.

What goes wrong without a rule of KIP-380, or of what it stands beside, each time as a shortest run, or one that goes
on for ever; then two gaps that KIP-380 leaves. [zookeeper.md](zookeeper.md) has all rules against all properties. An
arrow starts where a request is sent; it arrives with the step of the receiver that takes it. ZooKeeper has no lane: its
nodes are told as what changes.
"""

GALLERY = Gallery(_HEAD, "zookeeper/", _GROUPS, _NOTES)
"""The page docs/zookeeper-gallery.md."""

__all__ = ["GALLERY"]
