"""Helper invariants that make the properties of the truncation protocol under KIP-320 inductive.

They state why KIP-320 is safe.
- Records: a leader epoch has one leader, whose log in that epoch only grows. So logs that share a record share all
  records before it.
- ISRs: the ISR of a leader that can still commit includes every later ISR.
- Commits: every ISR of a later epoch holds the records that were committed before it.
The helper invariants hold only under the rules of KIP-320.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from highwater.invariants import statements
from highwater.invariants.statements import defined
from highwater.model.language import (
    Invariant,
    Number,
    SetValue,
    State,
    Truth,
    all_of,
    any_of,
    as_bool,
    implies,
    invariant,
)
from highwater.model.truncation import Truncation

RULE = "fenced_truncation"
"""A follower truncates only to the log of a leader in the follower's epoch. Without this rule most helpers fail."""


def _epoch_below(s: State, replica: Number, epoch: int) -> Truth:
    """True if the replica's leader epoch is below ``epoch``, or if the replica knows no leader epoch."""
    known = s.replicas[replica].leader_epoch
    return known.is_none | (known.value < epoch)


def _sent(s: State, epoch: int) -> Truth:
    """True if the controller has started this leader epoch."""
    return s.quorum.leader_epoch.is_some & (s.quorum.leader_epoch.value >= epoch)


def _has_reached(s: State, replica: Number, epoch: int) -> Truth:
    return ~_epoch_below(s, replica, epoch)


def _same(m: Truncation, s: State, a: Number, b: Number, offset: int) -> Truth:
    ours, theirs = s.logs[a], s.logs[b]
    return (ours.length > offset) & (theirs.length > offset) & (ours[offset] == theirs[offset])


@dataclass(frozen=True)
class _Isr:
    """An ISR whose members hold every record that was committed in an epoch below ``epoch``.

    ``there`` is the condition under which the ISR exists.
    """

    there: Truth
    members: SetValue
    epoch: int

    def holds(self, m: Truncation, s: State, replica: Number) -> Truth:
        """True if the replica holds every record below the HWM of each replica whose epoch is below this ISR's."""
        return all_of(
            implies(_epoch_below(s, other, self.epoch), m.holds_below_hwm(s, other, replica))
            for other in m.replica
        )

    def nothing_committed_from(self, m: Truncation, s: State, first: int) -> Truth:
        """True if the ISRs show that no epoch from ``first`` to the last one below ``epoch`` has committed a record.

        A leader commits only records that all its ISR members have fetched in its epoch. While it can commit, its ISR
        includes every later ISR. So a member of this ISR that has not reached an epoch shows that nothing was committed
        in that epoch. If nothing was committed from a later epoch on, that epoch's first ISR can take the place of this
        ISR.
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
    """All ISRs in a state: the controller's, the first ISR of each epoch, and the ISRs of leaders."""
    found = [_Isr(as_bool(True), s.quorum.isr, m.p.max_leader_epoch + 2)]
    for epoch in m.epoch:
        e = int(epoch)
        found.append(_Isr(_sent(s, e), s.requests[epoch].isr, e))
        found += [_Isr(_leads(m, s, r, e), s.replicas[r].isr, e + 1) for r in m.replica]
    return found


def _leads(m: Truncation, s: State, replica: Number, epoch: int) -> Truth:
    return m.presumes_leadership(s, replica) & s.replicas[replica].leader_epoch.is_(epoch)


# --- the controller and its requests ----------------------------------------------------------------------


@invariant("B8", rule=RULE)
def requests_are_the_controllers(m: Truncation, s: State) -> Iterator[Truth]:
    """In each request of the controller the leader is in the ISR; the last request names the controller's leader.

    Until that leader takes the request, the request also has the controller's current ISR. From then on the leader's
    own ISR equals the controller's.
    """
    q, last = s.quorum, s.quorum.leader_epoch
    yield implies(q.leader.is_some, q.isr.has(q.leader.value))
    for epoch in m.epoch:
        request = s.requests[epoch]
        yield implies(request.leader.is_some, request.isr.has(request.leader.value))
        yield implies(last.is_(epoch), request.leader == q.leader)
        taken = any_of(q.leader.is_(r) & s.replicas[r].leader_epoch.is_(epoch) for r in m.replica)
        yield implies(last.is_(epoch) & ~taken, request.isr == q.isr)
    for r in m.replica:
        leads = q.leader.is_(r) & last.is_some & (s.replicas[r].leader_epoch == last)
        yield implies(leads, s.replicas[r].isr == q.isr)
    yield implies(last.is_none, q.leader.is_none)


@invariant("B8", rule=RULE)
def replicas_go_by_requests(m: Truncation, s: State) -> Iterator[Truth]:
    """A replica's leader is the broker that the controller's request for the replica's epoch names.

    That leader has reached the epoch.
    A replica without an epoch has no leader, no records and no HWM.
    """
    for r in m.replica:
        me = s.replicas[r]
        nothing = me.leader.is_none & s.logs[r].is_empty & (me.hwm == 0)
        yield implies(me.leader_epoch.is_none, nothing)
        for epoch in m.epoch:
            request = s.requests[epoch]
            reached = any_of(request.leader.is_(x) & _has_reached(s, x, int(epoch)) for x in m.replica)
            told = _sent(s, int(epoch)) & me.leader.is_some & (me.leader == request.leader) & reached
            yield implies(me.leader_epoch.is_(epoch), told)


# --- records ------------------------------------------------------------------------------------------------


@invariant("B1", rule=RULE)
def epochs_in_logs_are_monotone(m: Truncation, s: State) -> Iterator[Truth]:
    """Leader epochs do not decrease along a log, and do not exceed the leader epoch of the log's replica.

    Each record's id is below ``next_record_id``, so a leader has assigned it.
    """
    for r in m.replica:
        log = s.logs[r]
        for o in range(m.p.log_size):
            there = log.length > o
            yield implies(there, log[o].id < s.next_record_id)
            own = s.replicas[r].leader_epoch
            yield implies(there, own.is_some & (log[o].epoch <= own.value))
            if o:
                yield implies(there, log[o - 1].epoch <= log[o].epoch)


@statements.logs_match.seen(rule=RULE)
def logs_match(m: Truncation, s: State) -> Iterator[Truth]:
    """Log matching: two logs that share a record share all records before it."""
    for a in m.replica:
        for b in m.replica:
            if int(a) < int(b):
                yield statements.logs_match([_same(m, s, a, b, o) for o in range(m.p.log_size)])


@invariant("B1", rule=RULE)
def an_epochs_records_are_its_leaders(m: Truncation, s: State) -> Iterator[Truth]:
    """The leader of a record's epoch has reached that epoch; while it leads in the epoch, its log has the record."""
    for r in m.replica:
        for o in range(m.p.log_size):
            for epoch in m.epoch:
                written = (s.logs[r].length > o) & (s.logs[r][o].epoch == epoch)
                leader = s.requests[epoch].leader
                reached = any_of(leader.is_(x) & _has_reached(s, x, int(epoch)) for x in m.replica)
                yield implies(written, _sent(s, int(epoch)) & reached)
                for x in m.replica:
                    leads = leader.is_(x) & s.replicas[x].leader_epoch.is_(epoch)
                    yield implies(written & leads, _same(m, s, r, x, o))


@invariant("B2, B3", rule=RULE)
def a_follower_has_a_prefix(m: Truncation, s: State) -> Truth:
    """The log of a follower in its leader's epoch is a prefix of the leader's log."""
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
    """No HWM is past its log's end, or passes a record of the true leader's epoch before the true leader's HWM does."""
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
def later_isrs_are_within(m: Truncation, s: State) -> Iterator[Truth]:
    """While no member of an ISR has reached a later epoch, the ISR includes every later ISR.

    This applies to a leader's own ISR, and to the first ISR of an epoch until the epoch's leader has taken it. Only the
    leader of the last epoch adds members, and that leader is a member of the earlier ISR.
    """
    for epoch in m.epoch:
        e = int(epoch)

        later = [(_sent(s, x), s.requests[x].isr) for x in range(e + 1, m.p.max_leader_epoch + 1)]
        later.append((as_bool(True), s.quorum.isr))
        request = s.requests[epoch]
        passed = any_of(request.isr.has(r) & _has_reached(s, r, e + 1) for r in m.replica)
        taken = any_of(request.leader.is_(r) & _has_reached(s, r, e) for r in m.replica)
        yield from (implies(_sent(s, e) & ~passed & ~taken & sent, isr <= request.isr) for sent, isr in later)
        for leader in m.replica:
            me = s.replicas[leader]
            passed = any_of(me.isr.has(r) & _has_reached(s, r, e + 1) for r in m.replica)
            leads = _leads(m, s, leader, e) & ~passed
            yield from (implies(leads & sent, isr <= me.isr) for sent, isr in later)


# --- commits ------------------------------------------------------------------------------------------------


@invariant("B4", rule=RULE)
def isr_members_hold_what_is_committed(m: Truncation, s: State) -> Iterator[Truth]:
    """The members of every current ISR hold every record that was committed in an epoch before the ISR's epoch.

    The ISRs are the controller's, the first ISR of each epoch, and the ISRs of leaders.
    """
    for isr in _isrs(m, s):
        yield from (implies(isr.there & isr.members.has(r), isr.holds(m, s, r)) for r in m.replica)
        for e in range(min(isr.epoch, m.p.max_leader_epoch + 1)):
            known = isr.there & _sent(s, e) & isr.nothing_committed_from(m, s, e)
            yield from (implies(known & s.requests[e].isr.has(r), isr.holds(m, s, r)) for r in m.replica)


@invariant("B4", rule=RULE)
def leaders_hold_what_is_committed(m: Truncation, s: State) -> Iterator[Truth]:
    """A leader holds every record committed up to its epoch.

    If nothing has been committed in the epochs after its own, it also holds the records below the HWM of each replica
    in those epochs. A follower truncates only to the log of such a leader, so it truncates no committed record.
    """
    for r in m.replica:
        for e in range(m.p.max_leader_epoch + 1):
            leads = _leads(m, s, r, e)
            yield implies(leads, _Isr(leads, s.replicas[r].isr, e + 1).holds(m, s, r))
            for isr in _isrs(m, s):
                if isr.epoch > e + 1:
                    known = isr.there & isr.nothing_committed_from(m, s, e + 1)
                    yield implies(leads & known, isr.holds(m, s, r))


HELPERS = {Truncation.name: defined(Invariant, __name__)}
"""The helper invariants that are proved together with a protocol's own invariants."""
