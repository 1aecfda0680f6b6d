"""Properties of the protocol ``truncation``: the published specification's invariants, step properties, and goals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from highwater.invariants import statements
from highwater.invariants.statements import defined, goals
from highwater.model.language import (
    Invariant,
    Number,
    SetValue,
    State,
    StepProperty,
    Truth,
    all_of,
    any_of,
    as_bool,
    implies,
    invariant,
    reachable,
    step_property,
)
from highwater.model.truncation import Truncation


@invariant("B4")
def weak_isr(m: Truncation, s: State) -> Iterator[Truth]:
    """For each replica that believes it leads, all members of its own ISR hold every record below its HWM.

    The property is weak because leaders are elected from the controller's ISR, which may differ from the leader's.
    """
    for leader in m.replica:
        for replica in m.replica:
            yield implies(
                m.presumes_leadership(s, leader)
                & s.replicas[leader].isr.has(replica)
                & (s.replicas[leader].hwm > 0),
                m.holds_below_hwm(s, leader, replica),
            )


@invariant("B4")
def strong_isr(m: Truncation, s: State) -> Iterator[Truth]:
    """For each replica that believes it leads, all members of the controller's ISR hold every record below its HWM.

    Each of these members can be elected. A record that one of them lacks can be lost after a consumer has read it.
    """
    for leader in m.replica:
        for replica in m.replica:
            yield implies(
                m.presumes_leadership(s, leader) & s.quorum.isr.has(replica) & (s.replicas[leader].hwm > 0),
                m.holds_below_hwm(s, leader, replica),
            )


# --- steps ----------------------------------------------------------------------------------------------------


@step_property("B3, B4")
def hwms_stay_within_their_logs(m: Truncation, before: State, after: State) -> Iterator[Truth]:
    """After a replica truncates its log, or starts to follow, its HWM is not past its log end.

    A replica with an HWM past its log would promise consumers records that it does not have.
    """
    for r in m.replica:
        old, new = before.replicas[r], after.replicas[r]
        begins = (old.leader_epoch != new.leader_epoch) & ~m.presumes_leadership(after, r)
        truncated = after.logs[r].length < before.logs[r].length
        yield implies(begins | truncated, new.hwm <= after.logs[r].length)


@step_property("101.1", rule="leader_epoch_lookup")
def unknown_epochs_end_at_the_own_hwm(m: Truncation, before: State, after: State) -> Iterator[Truth]:
    """If its leader has no record of a new follower's last epoch or later, the follower truncates to its own HWM."""
    for r in m.replica:
        old, new, log = before.replicas[r], after.replicas[r], before.logs[r]
        begins = (old.leader_epoch != new.leader_epoch) & ~m.presumes_leadership(after, r) & ~log.is_empty
        knows = any_of(
            new.leader.is_(x) & ~before.logs[x].is_empty & (before.logs[x].last.epoch >= log.last.epoch)
            for x in m.replica
        )
        yield implies(begins & ~knows, after.logs[r].length == old.hwm)


@step_property("320.2", rule="fenced_truncation")
def followers_truncate_in_their_leaders_epoch(m: Truncation, before: State, after: State) -> Iterator[Truth]:
    """A replica that begins to follow truncates to the log of a leader that leads in the replica's new epoch."""
    for r in m.replica:
        new = after.replicas[r]
        begins = (
            (before.replicas[r].leader_epoch != new.leader_epoch) & new.leader.is_some & ~new.leader.is_(r)
        )
        yield implies(begins, any_of(m.follows_in_epoch(after, r, x) for x in m.replica))


@step_property("B5, 320.4")
def replicas_join_the_isr_caught_up(m: Truncation, before: State, after: State) -> Truth:
    """A replica joins the ISR only if it follows the leader and has reached the leader's HWM.

    With the rule ``fenced_join`` the replica also follows in the leader's epoch.
    """
    joining = after.quorum.isr - before.quorum.isr
    able = []
    for r in m.replica:
        follows = [
            m.is_true_leader(before, x)
            & (m.follows_in_epoch if m.on("fenced_join") else m.follows)(before, r, x)
            & (before.logs[r].length >= before.replicas[x].hwm)
            for x in m.replica
            if int(x) != int(r)
        ]
        able.append(~joining.has(r) | any_of(follows))
    return implies((before.quorum.isr != after.quorum.isr) & ~joining.is_empty, all_of(able))


@step_property("B7")
def caught_up_replicas_stay_in_the_isr(m: Truncation, before: State, after: State) -> Truth:
    """A leader keeps in its ISR every replica that follows it in its epoch and has its last record."""
    gone = before.quorum.isr - after.quorum.isr
    same_epoch = before.quorum.leader_epoch == after.quorum.leader_epoch
    stays = []
    for r in m.replica:
        for x in m.replica:
            mine, theirs = before.logs[x], before.logs[r]
            has_all = (theirs.length == mine.length) & (mine.is_empty | (theirs.last == mine.last))
            current = m.is_true_leader(before, x) & m.follows_in_epoch(before, r, x) & has_all
            stays.append(~(gone.has(r) & current))
    return implies((before.quorum.isr != after.quorum.isr) & same_epoch, all_of(stays))


@step_property("B8")
def leaders_leave_no_empty_isr(m: Truncation, before: State, after: State) -> Truth:
    """The last ISR member leaves the ISR only if there is no leader: from an empty ISR nobody is elected cleanly."""
    emptied = ~before.quorum.isr.is_empty & after.quorum.isr.is_empty
    return implies(emptied, before.quorum.leader.is_none)


# --- goals ----------------------------------------------------------------------------------------------------


def _pairs(m: Truncation) -> list[tuple[Number, Number]]:
    return [(x, r) for x in m.replica for r in m.replica if int(x) != int(r)]


def _changes_isr(
    m: Truncation, before: State, after: State, joins: bool, about: Callable[[Number, Number], Truth]
) -> Truth:
    """True if a leader, not the controller, adds a replica to the ISR (``joins``) or removes one in this step.

    ``about`` must hold for the leader and that replica.
    """
    old, new = before.quorum, after.quorum
    return any_of(
        m.is_true_leader(before, x)
        & (old.leader_epoch == new.leader_epoch)
        & (~old.isr.has(r) & new.isr.has(r) if joins else old.isr.has(r) & ~new.isr.has(r))
        & about(x, r)
        for x, r in _pairs(m)
    )


@reachable("B5")
def a_replica_joins_at_the_hwm(m: Truncation, before: State, after: State) -> Truth:
    """A replica that has exactly the records below the leader's HWM joins the ISR, although the leader has more."""

    def at_the_hwm(x: Number, r: Number) -> Truth:
        hwm = before.replicas[x].hwm
        return (before.logs[r].length == hwm) & (before.logs[x].length > hwm)

    return _changes_isr(m, before, after, True, at_the_hwm)


@reachable("B5")
def a_replica_joins_below_the_log_end(m: Truncation, before: State, after: State) -> Truth:
    """A replica joins the ISR while the leader's HWM is below the end of the leader's log."""
    return _changes_isr(m, before, after, True, lambda x, r: before.replicas[x].hwm < before.logs[x].length)


@reachable("B5")
def a_replica_joins_once_all_is_committed(m: Truncation, before: State, after: State) -> Truth:
    """A replica joins the ISR while the leader's HWM is at the end of the leader's log."""
    return _changes_isr(m, before, after, True, lambda x, r: before.replicas[x].hwm == before.logs[x].length)


@reachable("B7")
def a_follower_is_removed(m: Truncation, before: State, after: State) -> Truth:
    """A leader removes from the ISR a replica that follows in the leader's epoch."""
    return _changes_isr(m, before, after, False, lambda x, r: m.follows_in_epoch(before, r, x))


@reachable("B7")
def a_replica_with_all_records_is_removed(m: Truncation, before: State, after: State) -> Truth:
    """A leader removes from the ISR a replica whose log is as long as the leader's."""
    return _changes_isr(m, before, after, False, lambda x, r: before.logs[r].length >= before.logs[x].length)


def _moves_hwm(m: Truncation, before: State, after: State, leader: Number) -> Truth:
    """True if a replica that believes it leads, before and after the step, advances its HWM."""
    further = before.replicas[leader].hwm < after.replicas[leader].hwm
    return further & m.presumes_leadership(before, leader) & m.presumes_leadership(after, leader)


@reachable("B4")
def the_hwm_passes_the_end_of_another_log(m: Truncation, before: State, after: State) -> Truth:
    """A leader's HWM passes a record that another replica lacks."""
    return any_of(
        _moves_hwm(m, before, after, x) & (before.logs[r].length < after.replicas[x].hwm)
        for x, r in _pairs(m)
    )


@reachable("B4")
def the_hwm_moves_before_all_follow(m: Truncation, before: State, after: State) -> Truth:
    """A leader's HWM advances while another replica does not follow this leader."""
    return any_of(_moves_hwm(m, before, after, x) & ~m.follows(before, r, x) for x, r in _pairs(m))


@reachable("B4")
def the_hwm_reaches_the_log_end(m: Truncation, before: State, after: State) -> Truth:
    """A leader's HWM reaches the end of its log."""
    return any_of(
        _moves_hwm(m, before, after, x) & (after.replicas[x].hwm == after.logs[x].length) for x in m.replica
    )


@reachable("B1, B4")
def a_leader_appends_past_an_uncommitted_record(m: Truncation, before: State, after: State) -> Truth:
    """A leader appends a record while its HWM is below its log end."""
    return any_of(
        (before.replicas[x].hwm < before.logs[x].length)
        & m.presumes_leadership(before, x)
        & (before.next_record_id != after.next_record_id)
        & (before.logs[x] != after.logs[x])
        for x in m.replica
    )


@reachable("B8")
def a_leader_is_replaced(m: Truncation, before: State, after: State) -> Truth:
    """The controller elects another replica while there is a leader."""
    old, new = before.quorum.leader, after.quorum.leader
    return old.is_some & new.is_some & (old != new)


@reachable("B8")
def the_controller_removes_a_follower(m: Truncation, before: State, after: State) -> Truth:
    """The controller changes the ISR and keeps the leader."""
    old, new = before.quorum, after.quorum
    decided = (old.leader_epoch != new.leader_epoch) & (old.leader == new.leader) & old.leader.is_some
    return decided & (old.isr != new.isr)


@reachable("B3")
def an_empty_log_follows_the_first_record(m: Truncation, before: State, after: State) -> Truth:
    """A replica with an empty log begins to follow a leader that has the first record of the first epoch."""
    found = []
    for x, r in _pairs(m):
        begins = (before.replicas[r].leader_epoch != after.replicas[r].leader_epoch) & m.follows(after, r, x)
        theirs = before.logs[x]
        empty = before.logs[r].is_empty & ~theirs.is_empty & (theirs[0].id == 0) & (theirs[0].epoch == 0)
        found.append(begins & empty)
    return any_of(found)


def _truncates(m: Truncation, before: State, after: State, follower: Number, leader: Number) -> Truth:
    """True if a follower truncates to the log of the leader that it already follows."""
    same = before.replicas[follower].leader_epoch == after.replicas[follower].leader_epoch
    shorter = after.logs[follower].length < before.logs[follower].length
    return same & shorter & m.follows(before, follower, leader)


@reachable("B3", rule="divergence_on_fetch")
def a_fetch_truncates_an_equally_long_log(m: Truncation, before: State, after: State) -> Truth:
    """A fetch truncates a follower's log that is as long as the leader's."""
    return any_of(
        _truncates(m, before, after, r, x) & (before.logs[r].length == before.logs[x].length)
        for x, r in _pairs(m)
    )


@reachable("B3", rule="divergence_on_fetch")
def a_fetch_truncates_a_longer_log(m: Truncation, before: State, after: State) -> Truth:
    """A fetch truncates a follower's log that is longer than the leader's."""
    return any_of(
        _truncates(m, before, after, r, x) & (before.logs[r].length > before.logs[x].length)
        for x, r in _pairs(m)
    )


INVARIANTS = defined(Invariant, __name__)
STEP_PROPERTIES = defined(StepProperty, __name__)
REACHABLE = goals(__name__)

# Helper invariants make the properties inductive under KIP-320. They state why KIP-320 is safe:
#
# - Records: a leader epoch has one leader, whose log in that epoch only grows. So logs that share a record share all
#   records before it.
# - ISRs: the ISR of a leader that can still commit includes every later ISR.
# - Commits: every ISR of a later epoch holds the records that were committed before it.


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
            informed = _sent(s, int(epoch)) & me.leader.is_some & (me.leader == request.leader) & reached
            yield implies(me.leader_epoch.is_(epoch), informed)


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


HELPERS = defined(Invariant, __name__)[len(INVARIANTS) :]
"""The invariants below ``INVARIANTS``. They are proved together with it."""
