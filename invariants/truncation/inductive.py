"""What makes the properties of the truncation protocol under KIP-320 inductive: helper invariants.

They say why KIP-320 is safe. Records: a leader epoch has one leader, whose log in that epoch only grows, so logs that
share a record share all before it. ISRs: a leader that can still commit has in its ISR whoever is in a later one.
Commits: what no later leader can have committed is held by every ISR of a later epoch. They hold with the rules of
KIP-320 on, and are meant for no other profile.
"""

from __future__ import annotations

from dataclasses import dataclass

from highwater.invariants import statements
from highwater.model.language import Invariant, State, all_of, any_of, implies, invariant
from highwater.model.language.step_properties import StepProperty
from highwater.model.language.values import Number, SetValue, Truth, as_bool
from highwater.model.truncation import Truncation

RULE = "fenced_truncation"
"""A follower truncates by a leader in its own epoch only. In older profiles most of these do not hold."""


def _epoch_below(s: State, replica: Number, epoch: int) -> Truth:
    """Whether a replica has not reached a leader epoch."""
    known = s.replicas[replica].leader_epoch
    return known.is_none | (known.value < epoch)


def _sent(s: State, epoch: int) -> Truth:
    """Whether the controller has given out a leader epoch."""
    return s.quorum.leader_epoch.is_some & (s.quorum.leader_epoch.value >= epoch)


def _has_reached(s: State, replica: Number, epoch: int) -> Truth:
    return ~_epoch_below(s, replica, epoch)


def _same(m: Truncation, s: State, a: Number, b: Number, offset: int) -> Truth:
    """Whether two logs hold the same record at an offset."""
    ours, theirs = s.logs[a], s.logs[b]
    return (ours.length > offset) & (theirs.length > offset) & (ours[offset] == theirs[offset])


@dataclass(frozen=True)
class _Isr:
    """An ISR that somebody went by, and what it answers for: all that was committed in epochs below one.

    It is there under a condition; ``epoch`` is one past the last epoch that it answers for.
    """

    there: Truth
    members: SetValue
    epoch: int

    def holds(self, m: Truncation, s: State, replica: Number) -> Truth:
        """Whether a replica holds all that is below the HWM of those that are in the epochs answered for."""
        return all_of(
            implies(_epoch_below(s, other, self.epoch), m.holds_below_hwm(s, other, replica))
            for other in m.replica
        )

    def nothing_committed_from(self, m: Truncation, s: State, first: int) -> Truth:
        """Whether it is known that of the epochs answered for none from ``first`` on has committed anything.

        A member that has not reached an epoch vouches for it: no leader commits without it. So does a member of the
        ISR that a later epoch began with, if nothing is committed from that one on.
        """
        known: dict[int, Truth] = {}
        for epoch in reversed(range(first, self.epoch)):
            itself = any_of(self.members.has(r) & _epoch_below(s, r, epoch) for r in m.replica)
            later = any_of(
                _sent(s, e) & known[e] & s.requests[e].isr.has(r) & _epoch_below(s, r, epoch)
                for e in range(epoch + 1, min(self.epoch, m.p.max_leader_epoch + 1))
                for r in m.replica
            )
            known[epoch] = itself | later
        return known[first]


def _isrs(m: Truncation, s: State) -> list[_Isr]:
    """The controller's ISR, those that epochs began with, and those that leaders believe in."""
    found = [_Isr(as_bool(True), s.quorum.isr, m.p.max_leader_epoch + 2)]
    for epoch in m.epoch:
        e = int(epoch)
        found.append(_Isr(_sent(s, e), s.requests[epoch].isr, e))
        found += [_Isr(_leads(m, s, r, e), s.replicas[r].isr, e + 1) for r in m.replica]
    return found


def _leads(m: Truncation, s: State, replica: Number, epoch: int) -> Truth:
    """Whether a replica takes itself for the leader, in this epoch."""
    return m.presumes_leadership(s, replica) & s.replicas[replica].leader_epoch.is_(epoch)


# --- the controller and its requests ----------------------------------------------------------------------


@invariant("B8", rule=RULE)
def requests_are_the_controllers(m: Truncation, s: State) -> Truth:
    """Who leads is in the ISR, in every request and in the last decision; the last request tells the last decision.

    The ISR can differ from that request once the leader has taken it, and is then as the leader has it.
    """
    q, last = s.quorum, s.quorum.leader_epoch
    in_isr = [implies(q.leader.is_some, q.isr.has(q.leader.value))]
    for epoch in m.epoch:
        request = s.requests[epoch]
        in_isr.append(implies(request.leader.is_some, request.isr.has(request.leader.value)))
        in_isr.append(implies(last.is_(epoch), request.leader == q.leader))
        taken = any_of(q.leader.is_(r) & s.replicas[r].leader_epoch.is_(epoch) for r in m.replica)
        in_isr.append(implies(last.is_(epoch) & ~taken, request.isr == q.isr))
    told = all_of(
        implies(
            q.leader.is_(r) & last.is_some & (s.replicas[r].leader_epoch == last), s.replicas[r].isr == q.isr
        )
        for r in m.replica
    )
    return all_of(in_isr) & told & implies(last.is_none, q.leader.is_none)


@invariant("B8", rule=RULE)
def replicas_go_by_requests(m: Truncation, s: State) -> Truth:
    """A replica's leader is that of its epoch's request, which was sent; one without an epoch knows and has nothing.

    Nobody is in an epoch that its leader has not reached.
    """
    known = []
    for r in m.replica:
        me = s.replicas[r]
        nothing = me.leader.is_none & s.logs[r].is_empty & (me.hwm == 0)
        known.append(implies(me.leader_epoch.is_none, nothing))
        for epoch in m.epoch:
            request = s.requests[epoch]
            reached = any_of(request.leader.is_(x) & _has_reached(s, x, int(epoch)) for x in m.replica)
            told = _sent(s, int(epoch)) & me.leader.is_some & (me.leader == request.leader) & reached
            known.append(implies(me.leader_epoch.is_(epoch), told))
    return all_of(known)


# --- records ------------------------------------------------------------------------------------------------


@invariant("B1", rule=RULE)
def epochs_in_logs_are_monotone(m: Truncation, s: State) -> Truth:
    """Leader epochs never fall along a log, and none is above the replica's own; ids are those given out."""
    kept = []
    for r in m.replica:
        log = s.logs[r]
        for o in range(m.p.log_size):
            there = log.length > o
            kept.append(implies(there, log[o].id < s.next_record_id))
            own = s.replicas[r].leader_epoch
            kept.append(implies(there, own.is_some & (log[o].epoch <= own.value)))
            if o:
                kept.append(implies(there, log[o - 1].epoch <= log[o].epoch))
    return all_of(kept)


@statements.logs_match.seen(rule=RULE)
def logs_match(m: Truncation, s: State) -> Truth:
    """Of every two replicas."""
    return all_of(
        statements.logs_match([_same(m, s, a, b, o) for o in range(m.p.log_size)])
        for a in m.replica
        for b in m.replica
        if int(a) < int(b)
    )


@invariant("B1", rule=RULE)
def an_epochs_records_are_its_leaders(m: Truncation, s: State) -> Truth:
    """A record has an epoch that its leader has reached; as long as it leads in it, its log holds the record."""
    held = []
    for r in m.replica:
        for o in range(m.p.log_size):
            for epoch in m.epoch:
                written = (s.logs[r].length > o) & (s.logs[r][o].epoch == epoch)
                leader = s.requests[epoch].leader
                reached = any_of(leader.is_(x) & _has_reached(s, x, int(epoch)) for x in m.replica)
                held.append(implies(written, _sent(s, int(epoch)) & reached))
                for x in m.replica:
                    leads = leader.is_(x) & s.replicas[x].leader_epoch.is_(epoch)
                    held.append(implies(written & leads, _same(m, s, r, x, o)))
    return all_of(held)


@invariant("B2, B3", rule=RULE)
def a_follower_has_a_prefix(m: Truncation, s: State) -> Truth:
    """In its leader's epoch a follower's log is the beginning of the leader's."""
    return all_of(
        implies(
            m.follows_in_epoch(s, follower, leader) & (s.logs[follower].length > o),
            _same(m, s, follower, leader, o),
        )
        for follower in m.replica
        for leader in m.replica
        if int(follower) != int(leader)
        for o in range(m.p.log_size)
    )


@invariant("B4", rule=RULE)
def hwm_is_within_the_log(m: Truncation, s: State) -> Truth:
    """No HWM is past its log's end; and of its own epoch's records the true leader's HWM is the highest."""
    within = all_of(s.replicas[r].hwm <= s.logs[r].length for r in m.replica)
    behind = all_of(
        implies(
            m.is_true_leader(s, leader)
            & (s.replicas[r].hwm > o)
            & s.replicas[leader].leader_epoch.is_(s.logs[r][o].epoch),
            s.replicas[leader].hwm > o,
        )
        for leader in m.replica
        for r in m.replica
        for o in range(m.p.log_size)
    )
    return within & behind


# --- ISRs ---------------------------------------------------------------------------------------------------


@invariant("B7, B8", rule=RULE)
def later_isrs_are_within(m: Truncation, s: State) -> Truth:
    """An ISR to which no leader can have added is as large as any later one.

    That is the ISR of a leader's own, and the one that an epoch begins with until its leader has taken it; each
    as long as no member has reached a later epoch. Only who leads in the last epoch adds, and it is a member.
    """
    within = []
    for epoch in m.epoch:
        e = int(epoch)

        later = [(_sent(s, x), s.requests[x].isr) for x in range(e + 1, m.p.max_leader_epoch + 1)]
        later.append((as_bool(True), s.quorum.isr))
        request = s.requests[epoch]
        passed = any_of(request.isr.has(r) & _has_reached(s, r, e + 1) for r in m.replica)
        taken = any_of(request.leader.is_(r) & _has_reached(s, r, e) for r in m.replica)
        within += [implies(_sent(s, e) & ~passed & ~taken & sent, isr <= request.isr) for sent, isr in later]
        for leader in m.replica:
            me = s.replicas[leader]
            passed = any_of(me.isr.has(r) & _has_reached(s, r, e + 1) for r in m.replica)
            leads = _leads(m, s, leader, e) & ~passed
            within += [implies(leads & sent, isr <= me.isr) for sent, isr in later]
    return all_of(within)


# --- commits ------------------------------------------------------------------------------------------------


@invariant("B4", rule=RULE)
def isr_members_hold_what_is_committed(m: Truncation, s: State) -> Truth:
    """The members of every ISR that somebody goes by hold what was committed until then.

    They are the controller's ISR, the one that an epoch began with, and the one that a leader believes in. What was
    committed without a member of the latter two is not asked of it.
    """
    held = []
    for isr in _isrs(m, s):
        held += [implies(isr.there & isr.members.has(r), isr.holds(m, s, r)) for r in m.replica]
        for e in range(min(isr.epoch, m.p.max_leader_epoch + 1)):
            known = isr.there & _sent(s, e) & isr.nothing_committed_from(m, s, e)
            held += [implies(known & s.requests[e].isr.has(r), isr.holds(m, s, r)) for r in m.replica]
    return all_of(held)


@invariant("B4", rule=RULE)
def leaders_hold_what_is_committed(m: Truncation, s: State) -> Truth:
    """A leader holds what was committed until its epoch; and what was later, if no later leader has committed.

    Whoever truncates does so by such a leader, so that nothing committed is truncated.
    """
    held = []
    for r in m.replica:
        for e in range(m.p.max_leader_epoch + 1):
            leads = _leads(m, s, r, e)
            held.append(implies(leads, _Isr(leads, s.replicas[r].isr, e + 1).holds(m, s, r)))
            for isr in _isrs(m, s):
                if isr.epoch > e + 1:
                    known = isr.there & isr.nothing_committed_from(m, s, e + 1)
                    held.append(implies(leads & known, isr.holds(m, s, r)))
    return all_of(held)


HELPERS: dict[str, tuple[Invariant, ...]] = {
    Truncation.name: (
        requests_are_the_controllers,
        replicas_go_by_requests,
        epochs_in_logs_are_monotone,
        logs_match,
        an_epochs_records_are_its_leaders,
        a_follower_has_a_prefix,
        hwm_is_within_the_log,
        later_isrs_are_within,
        isr_members_hold_what_is_committed,
        leaders_hold_what_is_committed,
    ),
}
"""Protocol to the helper invariants that are proved together with its own."""

HELPER_STEPS: dict[str, tuple[StepProperty, ...]] = {}
"""Protocol to the properties of its steps."""
