"""Follows one partition through one broker's log lines: tenures as leader, HWM, log end offsets and violations.

Events come in the order in which the broker wrote them. Lines of server.log and of state-change.log are ordered by
time only, in ms. The order of two events with the same time in both files is unknown, so no conclusion depends on it.

A *tenure* is the time in which the broker led without following in between, over one or more leader epochs. Within a
tenure the HWM never moves back (B4).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from highwater.invariants import statements
from highwater.invariants.replication import observed
from highwater.invariants.statements import Statement
from highwater.traces.kafka import broker_log as events
from highwater.traces.kafka.broker_log import BecameLeader, BrokerEvent
from highwater.traces.reports.text import count, offsets, records
from highwater.traces.rules import profiles
from highwater.traces.rules.decisions import effective_min_isr

# --- stints ----------------------------------------------------------------------------------------------

MAX_RANGES = 64


@dataclass(slots=True)
class Breach:
    """A violation of a property, found in a broker's log.

    ``sure`` is false while a change of the partition that the broker has not logged yet could explain the violation.
    """

    violated: Statement
    event: BrokerEvent
    summary: str
    lost: int
    """The number of records affected."""
    at_risk: str
    sure: bool = False


@dataclass(frozen=True, slots=True)
class Position:
    """A broker's LEO and role when it begins to lead or to follow in a leader epoch.

    ``offset`` is the LEO. ``leader`` is the broker itself if it leads, None without a leader. ``truncated`` is true if
    the broker truncated its log after the previous position, and ``restarted`` if it loaded its log after it.
    """

    epoch: int
    offset: int
    leads: bool
    leader: int | None
    truncated: bool
    restarted: bool = False


@dataclass(slots=True)
class Stint:
    """A broker's leadership in one leader epoch, until the next epoch or a restart.

    ``start`` is None if no line shows it. ``hwm`` is the highest HWM, and ``reached`` the event that reports it.
    ``visible`` is the first HWM, with its event, that consumers can see: Kafka returns an end offset to consumers only
    once the HWM has reached the start offset of the leader epoch. ``leos`` has the last LEO of each follower that the
    leader logged in this epoch.
    """

    broker: int
    epoch: int
    start: BecameLeader | None
    hwm: int = 0
    reached: BrokerEvent | None = None
    visible: tuple[int, BrokerEvent] | None = None
    leos: dict[int, int] = field(default_factory=dict)

    def hwm_is(self, hwm: int, event: BrokerEvent) -> None:
        """Record an HWM that the log reports in this leader epoch."""
        if hwm > self.hwm:
            self.hwm, self.reached = hwm, event
        if (
            self.visible is None
            and self.start is not None
            and profiles.end_is_told(hwm=hwm, epoch_start=self.start.start_offset)
        ):
            self.visible = (hwm, event)


class Ranges:
    """The offsets over which an HWM moved, as ranges. Overlapping moves mean that the HWM moved back.

    Threads may swap the order of log lines; the ranges do not depend on that order. The highest MAX_RANGES ranges are
    stored.
    """

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

    def add(self, low: int, high: int) -> tuple[int, int] | None:
        """Add the range [low, high), and return the highest earlier range that overlaps it, or None."""
        shared = [r for r in self._ranges if max(r[0], low) < min(r[1], high)]
        joined = [r for r in self._ranges if r[0] <= high and low <= r[1]]
        for r in joined:
            self._ranges.remove(r)
            low, high = min(low, r[0]), max(high, r[1])
        self._ranges.append((low, high))
        self._ranges.sort()
        del self._ranges[:-MAX_RANGES]
        return max(shared, default=None)

    @property
    def top(self) -> int:
        """The highest offset that the HWM has reached; -1 before the first move."""
        return self._ranges[-1][1] if self._ranges else -1


# --- broker view -----------------------------------------------------------------------------------------

LIMIT_SEEN = 1000
"""The most violations stored per broker and partition; more are only counted."""
LIMIT_STINTS = 10_000
"""The most stints as leader, and the most starts as follower, stored per broker and partition: the latest ones."""
AS_LOGGED = 0
"""Placeholder for a setting that the broker did not log: the metadata log's value applies."""
RECENT = 64
LIMIT_TRUNCATIONS = 64
"""The most truncations stored per broker and partition: the latest ones."""

NextEpoch = Callable[[int], "tuple[int, int] | None"]
"""Maps a leader epoch to the next one in whose ISR the broker was, and the local time (ms) of its election.

None if there is none, or if the lead of the broker's times over UTC is unknown.
"""
MinIsr = Callable[[int], "tuple[int | None, int | None]"]
"""Maps a partition epoch to its min ISR (None if uncertain) and its number of replicas (None if unknown)."""


@dataclass(frozen=True, slots=True)
class _Committed:
    """The committed ISR as the leader knows it.

    ``under`` is True if the leader logged that the ISR is under min ISR; None if it logged nothing about min ISR.
    """

    isr: tuple[int, ...]
    partition_epoch: int
    under: bool | None
    event: events.BrokerEvent


@dataclass(frozen=True, slots=True)
class LogEnd:
    """A broker's LEO as of ``event``.

    ``is_exact`` is true while the broker neither leads nor follows a leader. Otherwise the log may have grown since, or
    a truncation may have removed more.
    """

    offset: int
    is_exact: bool
    event: events.BrokerEvent


@dataclass(slots=True)
class LogAside:
    """A log that a broker has set aside: its end then, the broker's latest leader epoch, and the directory."""

    end: LogEnd | None
    epoch: int
    directory: str
    is_deleted: bool = False


class BrokerView:
    """The history of one partition in one broker's log. Pass the events to ``take`` in order, then call ``finish``."""

    def __init__(self, broker: int, min_isr: MinIsr, next_epoch: NextEpoch = lambda epoch: None) -> None:
        self.broker = broker
        self.topic_id = ""
        """The id of the partition's topic; empty as long as no line shows it."""
        self._next_epoch = next_epoch
        self.stints: deque[Stint] = deque(maxlen=LIMIT_STINTS)
        self.followed: deque[events.BecameFollower] = deque(maxlen=LIMIT_STINTS)
        self.positions: deque[Position] = deque(maxlen=2 * LIMIT_STINTS)
        self.end: LogEnd | None = None
        self.aside: LogAside | None = None
        """The log that the broker set aside last."""
        self.truncations: deque[tuple[int, events.Truncating]] = deque(maxlen=LIMIT_TRUNCATIONS)
        """Truncations, each with the leader epoch in which the broker followed."""
        self.tells_truncations = False
        """True if the input has the broker's server.log, which reports truncations."""
        self.seen: list[Breach] = []
        self.dropped = 0
        self.has_state_changes = False
        self.moves = self.judged_min_isr = self.judged_members = 0
        """Counts of HWM moves, HWM moves checked against min ISR, and members' LEOs checked against HWM moves."""
        self._min_isr = min_isr
        self._unsure: list[Breach] = []
        self._last_state: events.BrokerEvent | None = None
        self._recent: deque[tuple[int, int, int]] = deque(maxlen=RECENT)
        self._known_epoch = -1
        self._settings: tuple[int | None, ...] = ()
        self._truncated = self._restarted = False
        self._is_idle = False
        self._end_tenure()

    def _end_tenure(self) -> None:
        self._stint: Stint | None = None
        self._committed: _Committed | None = None
        self._ranges = Ranges()
        self._start_hwm = -1
        self._leos: dict[int, int] = {}
        self._behind: dict[int, events.HwmMoved] = {}
        self._joining: dict[int, tuple[int, int, events.IsrSubmitted]] = {}
        self._reported: dict[tuple[str, int], Breach] = {}
        self._between: list[events.HwmMoved] | None = None
        self._late: events.HwmMoved | None = None

    def take(self, event: events.BrokerEvent) -> None:
        """Process the next event of this broker and partition."""
        self._move_end(event)
        match event:
            case events.HwmMoved():
                self._moved(event)
            case events.LeoRecorded():
                self._recorded(event)
            case events.IsrUpdated():
                self._updated(event, event.isr, event.partition_epoch, event.under_min_isr)
            case events.IsrShrinking():
                self._shrinking(event)
            case events.IsrSubmitted():
                self._submitted(event)
            case (
                events.BecameLeader()
                | events.StillLeader()
                | events.BecameFollower()
                | events.StillFollower()
            ):
                self._state_changed(event)
            case events.FetcherRemoved():
                self._fetcher_removed(event)
            case events.HwmLowered():
                self._lowered(event)
            case events.InitialHwm() | events.LogLoaded():
                self._settings, self._restarted = (), True
                self.tells_truncations = True
                if not self._in_ms_of_state(event):
                    self._end_tenure()
            case events.TopicConfigured():
                self._settings = (*(self._settings[-1:] or (AS_LOGGED,)), event.min_isr)
            case events.Truncating():
                self._truncated = True
                epoch = self.positions[-1].epoch if self.positions else -1
                self.truncations.append((epoch, event))
                self._end_tenure()
            case _:
                pass

    def _move_end(self, event: events.BrokerEvent) -> None:
        """Update ``end``, the last known LEO, with an event."""
        known = -1 if self.end is None else self.end.offset
        match event:
            case events.BecameFollower():
                self._is_idle = event.leader is None
                self.end = LogEnd(event.leo, self._is_idle, event)
            case events.BecameLeader():
                self._is_idle = False
                self.end = LogEnd(event.start_offset, False, event)
            case events.StillLeader() | events.StillFollower():
                self._is_idle = False
            case events.LogLoaded():
                self._is_idle = True
                self.end = LogEnd(event.leo, True, event)
            case events.EndShown():
                self.end = LogEnd(event.leo, self._is_idle, event)
            case events.IsrShrinking():
                self.end = LogEnd(max(known, event.leo), False, event)
            case events.HwmMoved() if self._stint is not None and event.after > known:
                self.end = LogEnd(event.after, False, event)
            case events.Truncating():
                self.end = LogEnd(min(known, event.offset) if known >= 0 else event.offset, False, event)
            case events.LogSetAside():
                epoch = self.positions[-1].epoch if self.positions else -1
                self.aside, self.end = LogAside(self.end, epoch, event.directory), None
            case events.LogDeleted() if self.aside is not None and self.aside.directory == event.directory:
                self.aside.is_deleted = True
            case _:
                pass

    def confirm(self, latest_partition_epoch: int | None) -> None:
        """Mark pending violations as sure if the broker has already applied the partition's latest change."""
        if latest_partition_epoch is not None and self._known_epoch >= latest_partition_epoch:
            self._confirm()

    def finish(self) -> None:
        """End the log: violations that are still pending stay unsure."""
        self._unsure.clear()

    # --- leading and following -------------------------------------------------------------------------

    def _state_changed(
        self, event: events.BecameLeader | events.StillLeader | events.BecameFollower | events.StillFollower
    ) -> None:
        self.has_state_changes = True
        self._last_state = event
        self._known_epoch = event.partition_epoch
        self._settings = self._settings[-1:]
        self._confirm()
        if self._stint is not None:
            for move in self._between or ():
                self._stint.hwm_is(move.after, move)
        self._between = None
        begins = isinstance(event, events.BecameLeader | events.BecameFollower)
        self._settle_late(event.leader_epoch, begins)
        match event:
            case events.BecameFollower():
                self._end_tenure()
                self.followed.append(event)
                self._at(event.leader_epoch, event.leo, False, event.leader)
            case events.StillFollower():
                self._end_tenure()
            case events.BecameLeader() | events.StillLeader():
                self._leads(event)

    def _leads(self, event: events.BecameLeader | events.StillLeader) -> None:
        is_still = isinstance(event, events.StillLeader)
        if is_still and self._stint is not None and event.leader_epoch != self._stint.epoch:
            self._end_tenure()  # the line that began this epoch is missing
        if self._stint is not None and event.hwm >= 0 and event.time_ms > self._last_move_ms:
            self._goes_back(event, self._ranges.top, event.hwm)
        if isinstance(event, events.BecameLeader):
            if self._stint is None:
                self._end_tenure()
                self._start_hwm = event.hwm
            self._stint = Stint(self.broker, event.leader_epoch, event)
            self.stints.append(self._stint)
            self._at(event.leader_epoch, event.start_offset, True, self.broker)
            under = event.under_min_isr
        else:
            if self._stint is None:
                self._end_tenure()
                self._stint = Stint(self.broker, event.leader_epoch, None)
                self.stints.append(self._stint)
            under = None
        self._stint.hwm_is(event.hwm, event)
        self._updated(event, event.isr, event.partition_epoch, under)

    def _is_late(self, event: events.BrokerEvent) -> bool:
        """True if lines are missing, or the broker lags: it was in the ISR of a later epoch before this event."""
        following = None if self._stint is None else self._next_epoch(self._stint.epoch)
        return following is not None and event.time_ms > following[1]

    def _settle_late(self, epoch: int, begins: bool) -> None:
        """Count an HWM that came late, unless the broker's next line about its role shows that lines are missing.

        That line is about a leader epoch, which it ``begins`` or not.
        """
        if self._stint is not None and self._late is not None:
            following = self._next_epoch(self._stint.epoch)
            if epoch == self._stint.epoch or (begins and following is not None and epoch <= following[0]):
                self._stint.hwm_is(self._late.after, self._late)
        self._late = None

    def _updated(
        self, event: events.BrokerEvent, isr: tuple[int, ...], epoch: int, under: bool | None
    ) -> None:
        known = self._committed
        if self._stint is not None and (known is None or epoch >= known.partition_epoch):
            self._committed = _Committed(isr, epoch, under, event)
            self._known_epoch = max(self._known_epoch, epoch)

    def _fetcher_removed(self, event: events.FetcherRemoved) -> None:
        """Handle the removal of a fetcher, which shows that the broker is changing its role.

        Until a line of state-change.log shows the new role, HWM moves are held back. A second removal before that line
        ends the tenure.
        """
        if self._stint is None or self._in_ms_of_state(event):
            return
        if self._between is None:
            self._between = []
        else:
            self._end_tenure()

    def _at(self, epoch: int, offset: int, leads: bool, leader: int | None) -> None:
        self.positions.append(Position(epoch, offset, leads, leader, self._truncated, self._restarted))
        self._truncated = self._restarted = False

    def _in_ms_of_state(self, event: events.BrokerEvent) -> bool:
        """True if an event has the time (ms) of the last state-change line; the event then counts as earlier."""
        return self._last_state is not None and self._last_state.time_ms == event.time_ms

    def _confirm(self) -> None:
        for seen in self._unsure:
            seen.sure = True
        self._unsure.clear()

    # --- the HWM ---------------------------------------------------------------------------------------

    _last_move_ms = -1

    def _moved(self, event: events.HwmMoved) -> None:
        if self._goes_back(event, event.before, event.after, sure=True) or self._stint is None:
            return
        if self._between is not None:
            if not self._between or event.after > self._between[0].after:
                self._between[:] = [event]
            return
        if self._is_late(event):
            if self._late is None or event.after > self._late.after:
                self._late = event
            return
        self.moves += 1
        self._stint.hwm_is(event.after, event)
        known = self._committed
        ordered = known is not None and (
            known.event.path == event.path or event.time_ms > known.event.time_ms
        )
        if ordered:
            self._not_back(event)
        self._last_move_ms = max(self._last_move_ms, event.time_ms)
        if known is None or not ordered:
            return
        self._under_min_isr(event, known)
        for member in known.isr:
            if member != self.broker and not self._has(self._leos.get(member, -1), event.after):
                earlier = self._behind.get(member)
                if earlier is None or earlier.after < event.after:
                    self._behind[member] = event

    def _not_back(self, event: events.HwmMoved) -> None:
        move = (event.time_ms, event.before, event.after)
        if move in self._recent:
            return
        self._recent.append(move)
        shared = self._ranges.add(event.before, event.after)
        self._goes_back(event, self._start_hwm if shared is None else shared[1], event.before)

    def _lowered(self, event: events.HwmLowered) -> None:
        known = self._committed
        if self._stint is None or self._between is not None or known is None:
            return
        if event.time_ms > known.event.time_ms:
            self._goes_back(event, event.before, event.after)

    def _goes_back(self, event: events.BrokerEvent, was: int, now: int, sure: bool = False) -> bool:
        """Record a violation of B4, and return True, if the HWM moves back from ``was`` to ``now``."""
        if profiles.hwm_never_moves_back(before=was, after=now):
            return False
        self._see(
            statements.hwm_never_moves_back, 0, event,
            f"the HWM of leader {self.broker} moved back from {was} to {now}", was - now,
            f"consumers could already read {count(was - now, 'record')} (offsets {offsets(now, was)})", sure,
        )  # fmt: skip
        return True

    def _has(self, leo: int, hwm: int) -> bool:
        """True if an ISR member with this LEO has all records below the HWM."""
        return profiles.hwm_waits_for_isr(leo=leo, hwm=hwm)

    def _min_isr_of(self, known: _Committed) -> int | None:
        """The smallest min ISR that the leader can have used with a committed ISR; None if unknown.

        Settings in the broker's log take precedence over the metadata log. The broker logs new settings before they
        apply, so the previous settings may hold until the next line of state-change.log.
        """
        logged, replicas = self._min_isr(known.partition_epoch)
        possible = [logged if value == AS_LOGGED else value for value in self._settings or (AS_LOGGED,)]
        certain = [value for value in possible if value is not None]
        if replicas is None or len(certain) < len(possible):
            return None
        return effective_min_isr(min(certain), replicas)

    def _under_min_isr(self, event: events.HwmMoved, known: _Committed) -> None:
        """Record a violation of 966.1 if the HWM moved while the ISR was under min ISR.

        If the leader logged that the ISR is not under min ISR, that line decides: the leader's settings may lag behind
        the metadata log.
        """
        min_isr = self._min_isr_of(known)
        if min_isr is None:
            return
        self.judged_min_isr += 1
        if known.under is False or profiles.hwm_stands_under_min_isr(
            isr_size=len(known.isr), min_isr=min_isr
        ):
            return
        summary = (
            f"the HWM of leader {self.broker} moved from {event.before} to {event.after} while its committed ISR was "
            f"{list(known.isr)} (partition epoch {known.partition_epoch}) and min ISR {min_isr}"
        )
        moved = event.after - event.before
        stands = observed.hwm_stands_under_min_isr
        seen = self._reported.get((stands.name, known.partition_epoch))
        if seen is not None:
            moved += seen.lost
            seen.lost = moved
        else:
            seen = self._see(stands, known.partition_epoch, event, summary, moved, "")
        if seen is not None:
            held = count(len(known.isr), "replica")
            seen.at_risk = f"{count(moved, 'record')} committed on {held}, fewer than {min_isr}"

    # --- followers -------------------------------------------------------------------------------------

    def _recorded(self, event: events.LeoRecorded) -> None:
        """Process a follower's LEO that the leader recorded.

        The leader uses the LEO before it writes the line. The LEO is therefore also checked against earlier HWM moves
        and ISR proposals.
        """
        if self._stint is None or self._is_late(event):
            return
        replica, known = event.replica, self._leos.get(event.replica, -1)
        at_most = max(known, event.leo)
        moved = self._behind.pop(replica, None)
        self.judged_members += moved is not None
        if moved is not None and not self._has(at_most, moved.after):
            missing = moved.after - at_most
            self._see(
                observed.hwm_waits_for_isr, replica, moved,
                f"the HWM of leader {self.broker} moved to {moved.after}, but the LEO of ISR member {replica} was "
                f"at most {at_most}", missing, f"{records(at_most, moved.after)} are "
                f"not on replica {replica}, which can be elected",
            )  # fmt: skip
        joining = self._joining.pop(replica, None)
        if joining is not None:
            self._joined(replica, at_most, *joining)
        self._leos[replica] = self._stint.leos[replica] = event.leo

    def _joined(self, replica: int, leo: int, hwm: int, epoch_start: int, event: events.IsrSubmitted) -> None:
        if profiles.isr_joined_caught_up(leo=leo, hwm=hwm, epoch_start=epoch_start):
            return
        needed = max(hwm, epoch_start)
        self._see(
            observed.isr_joined_caught_up, replica, event,
            f"leader {self.broker} proposed replica {replica} for the ISR at LEO {leo}, below the required {needed}",
            needed - leo, f"{count(needed - leo, 'record')} (offsets {offsets(leo, needed)}) are not on "
            f"replica {replica}, which can be elected once it is in the ISR",
        )  # fmt: skip

    def _submitted(self, event: events.IsrSubmitted) -> None:
        stint = self._stint
        if event.added is None or stint is None or self._between is not None or event.added in self._joining:
            return
        start = -1 if stint.start is None else stint.start.start_offset
        if stint.epoch == event.leader_epoch:
            self._joining[event.added] = (max(self._ranges.top, self._start_hwm), start, event)

    def _shrinking(self, event: events.IsrShrinking) -> None:
        if self._stint is not None and self._between is None:
            self._stint.hwm_is(event.hwm, event)
            self._stint.leos |= {replica: leo for replica, leo in event.out_of_sync if leo >= 0}
        for replica, leo in event.out_of_sync:
            if leo >= 0 and not self._has(leo, event.hwm):
                self._see(
                    observed.hwm_waits_for_isr, replica, event,
                    f"the LEO of ISR member {replica} was {leo}, below the HWM of leader {self.broker}, {event.hwm}",
                    event.hwm - leo, f"{records(leo, event.hwm)} are not on "
                    f"replica {replica}, which could be elected until it left the ISR", True,
                )  # fmt: skip

    def _see(
        self,
        violated: Statement,
        what: int,
        event: events.BrokerEvent,
        summary: str,
        lost: int,
        at_risk: str,
        sure: bool = False,
    ) -> Breach | None:
        """Record and return a violation of ``violated``; None if it is a repetition, or if too many are stored.

        It is a repetition if this tenure already has a violation of ``violated`` with the same number ``what``, for
        example a broker id. An HWM that moves back is never a repetition. ``lost`` is the number of records affected,
        and ``at_risk`` describes them.
        """
        if (violated.name, what) in self._reported and violated is not statements.hwm_never_moves_back:
            return None
        if len(self.seen) >= LIMIT_SEEN:
            self.dropped += 1
            return None
        seen = Breach(violated, event, summary, lost, at_risk, sure)
        self._reported[violated.name, what] = seen
        self.seen.append(seen)
        if not sure:
            self._unsure.append(seen)
        return seen
