"""What the gallery says of each known defect, beside what it computes."""

from __future__ import annotations

from docs.analyses.defects import PLACE
from docs.pages.gallery import Gallery

_GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "KIP-966: who may lead, and when the HWM may advance",
        (
            "last-replica-standing",
            "weak-writes",
            "elr-without-gate",
            "maximal-isr-gate",
            "min-isr-copies",
            "isr-keeps-last-member",
            "unclean-registration",
            "clean-registration",
        ),
    ),
    (
        "KIP-966: what a broker says of its last shutdown",
        ("unseen-stop", "file-before-flush", "early-stop", "one-directory"),
    ),
    (
        "KIP-966: downgrades and upgrades",
        ("elr-revived", "elr-not-emptied", "last-known-not-emptied"),
    ),
    (
        "KIP-966: unclean recovery",
        (
            "no-elr",
            "last-known-elr",
            "stale-recovery-answers",
            "recovery-answer-outlived",
            "recovery-answer-check",
            "recovery-shortest-log",
            "recovery-any-length",
            "recovery-longest-log",
            "recovery-any-log",
            "recovery-enough-answers",
            "registration-before-fencing",
        ),
    ),
    (
        "KIP-966: reassignment and changes of min.insync.replicas",
        (
            "reassignment-under-min-isr",
            "elr-outlives-replica",
            "elr-outlives-min-isr",
            "elr-after-election",
            "early-deletion",
            "added-again",
        ),
    ),
    (
        "What clients see: acknowledgements, and the HWM of consumers",
        ("uncommitted-read", "told-end", "configured-min-isr", "waiting-producers"),
    ),
    (
        "KIP-903: stale broker epochs",
        ("stale-epoch-both", "stale-epoch-controller", "stale-epoch-leader", "epochs-of-metadata"),
    ),
    (
        "KIP-841: fenced and shutting-down replicas",
        (
            "fenced-both",
            "fenced-controller",
            "fenced-leader",
            "shutting-down",
            "stops-listening",
            "implicit-stop",
        ),
    ),
    (
        "KIP-101, KIP-279, KIP-320: fetching, truncation and joining the ISR",
        (
            "truncate-to-hwm",
            "late-answer",
            "late-fetch",
            "unfenced-fetch",
            "join-before-epoch-start",
            "join-by-old-fetch",
            "join-below-hwm",
            "hwm-over-committed-isr",
        ),
    ),
    (
        "AlterPartition and its epochs",
        (
            "stale-partition-epoch",
            "resent-epochs",
            "stale-epochs",
            "stale-leader-epoch",
            "former-leader",
            "former-incarnation",
            "removed-replica-joins",
            "forgotten-proposal",
            "leaving-at-once",
            "late-proposal",
            "former-controller",
        ),
    ),
)
"""The defects under the headings of the page."""

_NOTES: dict[str, str] = {
    "last-replica-standing": (
        "A record is acknowledged while two brokers have it. The ISR is then the leader alone; it crashes, "
        "and what was not flushed is gone. It is the only member of an ISR that may not become empty, so it "
        "leads again, and the other broker, which has the record, is to truncate to its log. KIP-966 closes "
        "this with 966.1, 966.3, 966.4 and 966.5: the last member can leave, it leaves when it registers "
        "uncleanly, and who left under min ISR with a whole log stays eligible."
    ),
    "weak-writes": (
        "966.1 gates the HWM for records of any acks. Without it the leader alone makes a record visible to "
        "consumers, and one lost tail takes it back, although fewer than min ISR brokers have lost data."
    ),
    "elr-without-gate": (
        "966.1 is what makes the ELR of 966.4 true. Broker 1 enters the ELR when it leaves an ISR that falls "
        "under min ISR; if the HWM goes on without it, broker 1 is elected later and lacks what was "
        "committed."
    ),
    "maximal-isr-gate": (
        "966.1 asks for min ISR members of the controller's ISR. Here a follower that is only proposed counts "
        "too: leader and proposed follower commit a record, the controller never takes the proposal, and a "
        "leader is elected by an ELR that nobody emptied."
    ),
    "min-isr-copies": (
        "B6 and 966.1 each suffice for this property. With both off an acks=all record of a leader alone is "
        "acknowledged with a single copy."
    ),
    "isr-keeps-last-member": (
        "966.3. The last member stays in the ISR although it has lost its log, and leads without asking "
        "anybody; an ELR member with the record is passed over."
    ),
    "unclean-registration": (
        "966.5. Broker 1 was the last ISR member and is in the ELR when it comes back with an empty log. It "
        "has to leave the ELR before it is registered; here it stays, and is elected once it is unfenced."
    ),
    "clean-registration": (
        "966.12. A broker that stopped cleanly has flushed its log and says so with its PreviousBrokerEpoch. "
        "If every restart counts as unclean, a rolling restart takes members out of the ELR that hold "
        "everything: nothing is lost yet, but fewer than min ISR copies are known."
    ),
    "unseen-stop": (
        "966.12. The CleanShutdownFile says something of the disk, so it is written whether the controller "
        "granted the shutdown or not: a timeout or an unreachable controller costs the ELR a member otherwise."
    ),
    "file-before-flush": (
        "966.12. The file vouches for what is on disk. Written before the flush, it vouches for a log that ends "
        "earlier; the broker has stopped in order, and stays electable."
    ),
    "early-stop": (
        "966.12 has the broker write −1 here. Broker 0 has lost its log; it starts and stops before it is "
        "registered. With the epoch of its former life, which is the registered one still, its next registration "
        "is clean, and it leads with an empty log. One broker has lost its log, so KIP-966 promises that nothing "
        "is lost."
    ),
    "one-directory": (
        "966.12, with several log directories. The disk with the replica is replaced while the broker is down; "
        "another disk still has its file. Kafka takes the epoch only where all directories agree."
    ),
    "elr-revived": (
        "966.18. The broker that leaves the ISR is in the ELR when the metadata version is downgraded. "
        "min.insync.replicas becomes 1, which is no change of the partition, so the HWM moves and the ELR is still "
        "recorded; the next upgrade makes it count. The rule `elr_begins_empty` is ours: the proposal empties the "
        "ELR of those partitions only that were changed while it was off."
    ),
    "elr-not-emptied": (
        "966.18. With `elr_begins_empty` on, what a change leaves behind does no harm; so both are off here."
    ),
    "last-known-not-emptied": (
        "966.18. The last known ELR and leader go with the ELR. That they stay is seen in the record itself: with "
        "`elr_begins_empty` on nobody would read them again. Kafka 4.2 leaves them."
    ),
    "no-elr": (
        "966.4. With unclean recovery but no ELR there is nobody to wait for when the ISR is empty: the first "
        "replica that answers is elected."
    ),
    "last-known-elr": (
        "966.10, 966.14. The LastKnownELR is what a Balanced recovery waits for. Without it the recovery is "
        "over when any replica has answered."
    ),
    "stale-recovery-answers": (
        "966.14 drops an answer whose broker epoch or leader epoch is not the current one. Here an answer "
        "counts that was sent before the replica lost its log, and its sender is elected for a log that it "
        "has no longer."
    ),
    "recovery-answer-outlived": (
        "**A gap in the letter of KIP-966.** 966.14 compares the epochs when an answer arrives. Between the "
        "arrival and the election the replica can crash, lose its tail and register anew; the answer that the "
        "controller holds was right when it came. The rule `recovery_answers_expire` is ours: an answer stops "
        "counting when its broker has registered anew."
    ),
    "recovery-answer-check": (
        "With answers that expire (see the entry before) the comparison on arrival decides nothing in this "
        "scenario: an answer with an old broker epoch is stored, but does not count at the election."
    ),
    "recovery-shortest-log": (
        "966.14. Both replicas have answered, and both logs end in leader epoch 0: one lacks the second record. "
        "With `recovery_prefers_longer` off that one wins. The third record is then committed where the second "
        "one was, and consumers read it there."
    ),
    "recovery-any-length": (
        "966.14. The highest last epoch alone does not say which log is complete: a replica that lost its tail "
        "ends in the same leader epoch."
    ),
    "recovery-longest-log": (
        "966.14. min ISR is 1. The first leader crashes with a record that nobody else has; the second one writes "
        "another record in the next leader epoch, and commits it. The logs are of equal length, so by length alone "
        "the first leader may win, and replicas hold different records below their HWMs. `recovery-two-epochs` has "
        "the same budgets with the rule on, and all invariants hold."
    ),
    "recovery-any-log": (
        "966.14. Answers are waited for, and nobody looks at what they say: the random election that unclean "
        "recovery is to replace."
    ),
    "recovery-enough-answers": (
        "966.14. **An alternative that KIP-966 rejects**, with its own example: brokers 0 and 1 hold the record, "
        "broker 2 is out of the ISR. Brokers 0 and 1 shut down uncleanly, and broker 1 loses the record. "
        "Brokers 1 and 2 answer first, which is as many as min ISR; the only one that has the record is not "
        "waited for."
    ),
    "registration-before-fencing": (
        "B8. A broker can restart before its former session is over. If its new incarnation is registered "
        "while the old registration is not fenced, an ISR member leaves the ISR uncleanly without having been "
        "in the ELR, and so never enters the LastKnownELR, which 966.10 fills from the ELR only. Both "
        "replicas do; then a Balanced recovery waits for nobody, and the broker without the record answers "
        "first."
    ),
    "reassignment-under-min-isr": (
        "966.9. With broker 0 fenced, brokers 1 and 2 hold what is committed. Cancelling the reassignment "
        "drops broker 2, and broker 1 is the only one left that is known to hold it."
    ),
    "elr-outlives-replica": (
        "966.9 twice: the size rule, and ELR ⊆ replicas. The size rule alone keeps the ELR clean, as it lets "
        "a reassignment end only with min ISR members, and then there is no ELR; so both are off here. The "
        "replica that is removed enters the ELR because it leaves an ISR that falls under the min ISR of "
        "before. For one replica min ISR is 1, so the HWM advances without it; when it is a replica again it "
        "is elected from the ELR."
    ),
    "elr-outlives-min-isr": (
        "966.8. min.insync.replicas becomes 1, so the HWM advances with one member; who stayed in the ELR "
        "from the time of min ISR 2 is elected and lacks what was committed since."
    ),
    "early-deletion": (
        "966.9. What is being removed is still a replica: it is in the ISR, can be elected, and stays if the "
        "reassignment is cancelled. Only once it is out of the replicas is its log of no use."
    ),
    "added-again": (
        "B8. A removal that ends the leader epoch is what makes the leader forget where the removed replica was. "
        "Without it the leader that hears of removal and addition at once takes the old fetch for one of the new, "
        "empty log; the controller takes the replica in, and it leads alone."
    ),
    "elr-after-election": (
        "966.4, 966.6. The ISR reaches min ISR by an election from the ELR, not by an AlterPartition; the ELR "
        "has to be emptied all the same."
    ),
    "uncommitted-read": (
        "B6. acks=1 is answered at the append, and that is all that it means: while the ISR is under min ISR the "
        "record is shown to nobody (966.1). Shown at once, it is read from a leader that has been replaced, is "
        "truncated, and another record is read at its offset."
    ),
    "told-end": (
        "207.1, KIP-966: the HWM does not move backward for consumers. Broker 0 crashes and comes back with an HWM "
        "from an older checkpoint, catches up, and leads when broker 1 crashes. min ISR is 2, so its HWM stays "
        "where it is; told as the end of the log, it is less than what consumers have heard. With the rule it is "
        "not told before it has reached the LESO."
    ),
    "configured-min-isr": (
        "966.2. Two replicas can never be three. A leader that comes back with an old HWM never shows again what "
        "was committed, whatever its follower fetches. This one is a run that goes on for ever."
    ),
    "waiting-producers": (
        "B6. A producer's wait is for an offset. Kafka's leader goes on with it when it is elected anew, and that "
        "is sound: nothing of its log goes as long as it leads. Here it followed in between and truncated, so that "
        "another record stands at the offset; the HWM passes that one, and the first producer is told that its "
        "record is written."
    ),
    "stale-epoch-both": (
        "903.2 and 903.4. Broker 1 fetches up to the end, crashes, loses its log and registers anew. Then its "
        "old fetch arrives, and the leader proposes it by what the former incarnation had."
    ),
    "stale-epoch-controller": (
        "903.4 is needed beside 903.2: the leader compares with the broker epoch in its own view, and that "
        "view may lag behind the new registration. The controller knows."
    ),
    "stale-epoch-leader": (
        "903.2 alone is not needed for safety: each proposal carries the epochs of the members' fetches "
        "(903.3), and the controller refuses those that are old. The leader's check spares the refused "
        "request."
    ),
    "epochs-of-metadata": (
        "903.3. **An alternative that KIP-903 rejects**, with its own example: the last fetch comes late, and by "
        "then the leader knows the new broker epoch. It vouches with that for a log that is gone, and the "
        "controller finds nothing wrong."
    ),
    "stops-listening": (
        "841.5. The controller has moved the leadership away, and the broker does not hear of it: it takes itself "
        "for the leader until it has stopped, 5 seconds or more later."
    ),
    "implicit-stop": (
        "841.5. **An alternative that KIP-841 rejects**, for the reason that it gives: nobody knows from where in "
        "the metadata log on a change is due to the shutdown. Broker 1 was elected before the controller heard of "
        "its shutdown; it takes its election for a StopReplica, and the partition has a leader that does not lead."
    ),
    "fenced-both": (
        "841.1 and 841.2. The leader has not heard of the fencing, so its own check would not have helped: "
        "the run is as short as with the controller's check off alone."
    ),
    "fenced-controller": "841.2 is needed beside 841.1: the leader looks at its view, which lags.",
    "fenced-leader": (
        "841.1 alone is not needed for safety: the controller refuses (841.2). The leader's check spares a "
        "request that is refused again and again."
    ),
    "shutting-down": (
        "841.1 and 841.2 for brokers in controlled shutdown. Such a broker leaves the ISR and keeps fetching "
        "(841.5); it must not be put back while it stops."
    ),
    "truncate-to-hwm": (
        "B3, KIP-101. The HWM of a follower lags behind the leader's. A follower that truncates to it on "
        "hearing of a new leader throws away a record that is committed, and it is in the ISR."
    ),
    "late-answer": (
        "B2. While broker 1 led, with an empty log, it told broker 0 where their logs diverge. The "
        "answer is late: broker 0 has led since and committed a record, and then truncates it away."
    ),
    "late-fetch": (
        "Broker 1 loses its log, registers anew and joins the ISR by a fetch of its new incarnation. Then a fetch "
        "of the former one arrives in the same leader epoch, from the end of the lost log, and the HWM passes "
        "what broker 1 no longer has. No proposal speaks of it; Kafka refuses such a fetch, by the broker epoch "
        "in the leader's metadata view (`Replica.updateFetchStateOrThrow`)."
    ),
    "unfenced-fetch": (
        "B2. Broker 2 sends a fetch at the end of broker 1's log; it arrives when broker 1 leads anew. In "
        "between broker 2 has truncated to another leader's log. Without the comparison of leader epochs, "
        "broker 1 commits by a position that its follower has left."
    ),
    "join-before-epoch-start": (
        "B5, KIP-320. The new leader's HWM lags behind what its predecessor committed. Reaching that HWM "
        "proves nothing; the follower has to reach the leader epoch start offset."
    ),
    "join-by-old-fetch": (
        "B5. Broker 1 leads, is replaced, and leads again; it goes by where broker 2 was in its former epoch. "
        "Broker 2 has turned to the leader in between, and truncates to that log."
    ),
    "join-below-hwm": (
        "B5. A follower that was at the log's end when it fetched, and is no more, is put into the ISR below "
        "the HWM."
    ),
    "hwm-over-committed-isr": (
        "B4, B7. While an AlterPartition is unanswered the leader cannot know whether the follower is in the "
        "ISR already; so the HWM must wait for it."
    ),
    "stale-partition-epoch": (
        "B8. The answer to an AlterPartition is lost, and the leader sends it again. Until that arrives the "
        "partition has changed, and the leader has replayed it and commits without the replica. Only the partition "
        "epoch tells, as the leader epoch is the same."
    ),
    "resent-epochs": (
        "903.3 says that an AlterPartition gives each member's broker epoch, not which one when it is sent again. "
        "Since broker 2 was proposed it has lost its log, registered anew and fetched from the start. With the epoch "
        "of that fetch the controller takes it, although the HWM has passed what it has now. Kafka's leader sends "
        "again what it sent at first."
    ),
    "stale-epochs": (
        "B8. The leader was fenced and elected again while its request was under way; meanwhile it has "
        "committed a record alone."
    ),
    "stale-leader-epoch": (
        "Every change of the leader epoch changes the partition epoch too; so this check alone can be left "
        "out."
    ),
    "former-leader": (
        "B8. A former leader's request counts in the epoch of its successor, which commits records without "
        "those that the request names."
    ),
    "former-incarnation": (
        "A leader that restarts is fenced first, which ends its leader epoch; so the sender's broker epoch "
        "can be left out while the other epochs are compared."
    ),
    "removed-replica-joins": (
        "B8. The epochs and the list of replicas each keep a replica out that a reassignment took back; all "
        "three are off here."
    ),
    "leaving-at-once": (
        "B7, with a request that Kafka sends and no rule forbids: two members are taken out at once. Until the "
        "controller has answered both can be elected, so the HWM waits for both."
    ),
    "late-proposal": (
        "B8. The leader sends its AlterPartition again when no answer comes. The second copy is accepted, the ISR "
        "shrinks again, and then the first copy arrives, beside the shrink's answer: by its partition epoch it is "
        "from before."
    ),
    "former-controller": (
        "B8. A controller that was replaced, and does not know, takes the leader's shrink, and its own log will "
        "never be the metadata log. If it answers at once, the leader commits alone, while the other broker is in "
        "the ISR of the real controller."
    ),
    "forgotten-proposal": (
        "B7. The leader learns the new partition epoch from the answer to its AlterPartition, then proposes "
        "again; the metadata that says the same thing arrives later and must not cancel the new proposal."
    ),
}
"""What closes the defect and how to read the run, in Markdown."""

_HEAD = """\
# Gallery of known defects

Generated by `make docs` from `model/replication/scenarios/defect-*.toml`; do not edit.

Each rule of the replication protocol was added to Kafka, or proposed, because something goes wrong without it. Here
rules are taken off, one scenario for each defect, and the checker finds a shortest run to a state in which a promise
is broken. With every rule on and the same budgets of faults no such run was found
([replication-rules.md](replication-rules.md); `tests/replication/test_defects.py` says how far was searched). The
metadata quorum has a gallery of its own, [quorum-gallery.md](quorum-gallery.md), and so has ZooKeeper mode,
[zookeeper-gallery.md](zookeeper-gallery.md). To see a run with all its details:

```console
$ highwater check replication/defect-last-replica-standing
```

A depth counts states, the initial one included. In a chart an arrow starts where a message is sent; it arrives with the
step of the receiver that takes it, which can be much later, or never. Brokers are drawn with what they know themselves:
`view` is the broker's knowledge of the metadata log, which may lag behind the controller's.
"""

GALLERY = Gallery(_HEAD, PLACE, _GROUPS, _NOTES)
"""The page docs/gallery.md."""

__all__ = ["GALLERY"]
