"""Words on the known defects of the quorum: what goes wrong in each, for its gallery."""

from __future__ import annotations

from docs.pages.gallery import Gallery

_GROUPS = (
    (
        "The high watermark that does not come",
        (
            "before-kip-1166",
            "no-hwm-in-fetch",
            "unknown-hwm-untold",
            "behind-parks",
            "growth-completes-nothing",
            "growth-leaves-one-out",
            "diverging-parks",
            "records-wait",
            "waits-for-timer",
            "no-leader-change-record",
        ),
    ),
    (
        "Fetches that tell nothing",
        ("equal-hwm-answered", "older-sender-answered", "missing-field", "consumer-says-hwm", "busy-loop"),
    ),
    (
        "Commits that are none",
        (
            "one-other-commits",
            "observers-count",
            "earlier-epoch-commits",
            "hwm-carried-over",
            "hwm-past-log",
            "consumer-reads-all",
            "unfenced-fetch",
        ),
    ),
    ("Logs and elections", ("late-answer", "no-divergence-check", "minority-elects", "outdated-candidate")),
    (
        "Votes under way",
        ("no-pre-vote", "pre-vote-for-all", "two-votes", "vote-forgotten"),
    ),
)
"""The order of the gallery: titles, and the defects below them."""

_NOTES = {
    "before-kip-1166": "The fetch by which a leader learns that a majority has the record brings no new records to its "
    "sender. The leader moves its HWM, and parks the fetch: the voter that made the commit hears of it last.",
    "no-hwm-in-fetch": "The leader would answer a replica that is behind, but cannot know that it is: a fetch without "
    "the field counts as one that is not.",
    "unknown-hwm-untold": "After a restart a replica has its log and no HWM. It is where it most needs an answer, and "
    "without −1 it looks like a sender that does not support the field.",
    "behind-parks": "The field is there, and the leader does not look at it.",
    "growth-completes-nothing": "The observer's fetch was parked rightly: it knew all that there was to know. Then "
    "another member's fetch moves the HWM. The proposal says that the leader may complete parked fetches then; one "
    "that does not leaves them to the park timer.",
    "growth-leaves-one-out": "May complete all is not may complete some: whoever is left out waits for the timer, as "
    "all did before the proposal.",
    "diverging-parks": "The proposal parks a fetch where the response is empty. One that tells where to truncate has "
    "no records, and is all that the replica needs: parked, it has a log that is not the leader's for 500 ms more.",
    "records-wait": "The oldest of the rules on parked fetches: new records end the wait.",
    "waits-for-timer": "What the defects above come to, as a run without end: everything that is fair has been done, "
    "and the replica is behind. The park timer would help; nothing else does.",
    "no-leader-change-record": "Records of earlier epochs are not committed by themselves, and no client writes a new "
    "one. A KRaft leader writes a LeaderChange record so that it does not depend on clients.",
    "equal-hwm-answered": "The proposal parks a fetch at an equal HWM. Were it answered, replica and leader would send "
    "each other empty messages as fast as the network goes.",
    "older-sender-answered": "Why the default of the field is 2⁶³−1 and not −1: a sender that cannot say what it "
    "knows would be taken for one that knows nothing, and answered every time.",
    "missing-field": "The same while a cluster is upgraded: until a member has learned that version 18 is finalised it "
    "sends no HWM. Every cluster goes through this.",
    "consumer-says-hwm": "Why 1166.5 keeps consumers from setting the field: no HWM is news to them, only records are.",
    "busy-loop": "The same as a run without end. The park timer is left out, so that what goes round is the loop.",
    "one-other-commits": "With five voters a record on two of them is gone when the other three elect.",
    "observers-count": "The leader and an observer have the record. Two voters without it elect one of them.",
    "earlier-epoch-commits": "The run that the Raft paper shows in its figure 8: a leader comes back, brings its old "
    "record to a majority and counts it as committed; a candidate with a later last epoch, which never had it, wins "
    "the next election.",
    "hwm-carried-over": "The HWM of a follower lags. A follower that becomes leader and serves it shows clients one "
    "less than they have seen.",
    "hwm-past-log": "An answer carries one record and the HWM of a leader that is further. Below that HWM the replica "
    "would count on a record that it does not have.",
    "consumer-reads-all": "Members of the quorum fetch what is not committed, and wait for the HWM before they apply "
    "it. A consumer has nothing to wait with.",
    "unfenced-fetch": "A leader of two epochs takes a fetch that was sent to it in the first one. What the sender had "
    "then it has truncated since.",
    "late-answer": "The record of an answer belongs behind the records that the replica had when it asked.",
    "no-divergence-check": "A replica whose log has another record at the leader's end looks as if it had the "
    "leader's.",
    "minority-elects": "Two members give themselves their votes in the same epoch.",
    "outdated-candidate": "The vote of the member that has the record would have been the one to refuse.",
    "no-pre-vote": "Nobody else misses anything. One request of a greater epoch is enough, whether it can win or not.",
    "pre-vote-for-all": "It asks first, but those who could say that there is a leader do not.",
    "two-votes": "Both majorities are majorities; the voter that they share is in both.",
    "vote-forgotten": "The same by way of a restart: what was promised has to be on disk before it is said.",
}
"""What is to be seen in each."""

_HEAD = """\
# Gallery of the quorum's defects

Generated by `make docs` from `model/quorum/scenarios/defect-*.toml`; do not edit.

What goes wrong in the KRaft metadata quorum without a rule of KIP-1166, or of KRaft that it builds on, each time as a
shortest run, or one that goes on for ever. [quorum.md](quorum.md) has all rules against all properties. An arrow starts
where a message is sent; it arrives with the step of the receiver that takes it. An HWM of −1 is one that is not known,
and none in a fetch says that the field is not there.
"""

GALLERY = Gallery(_HEAD, "quorum/defect-", _GROUPS, _NOTES)
"""The page docs/quorum-gallery.md."""

__all__ = ["GALLERY"]
