"""Losses of committed records: a leader starts without what was committed, and which promises that breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from highwater.invariants import statements
from highwater.traces.brokers.broker_view import BrokerView
from highwater.traces.brokers.elections import ELR, Election, PartitionVersion
from highwater.traces.brokers.stints import Stint
from highwater.traces.kafka.broker_events import BecameLeader, BrokerEvent
from highwater.traces.reports.findings import Finding
from highwater.traces.rules import log_rules

KIP = "KIP-966"
"""Promises that nothing committed is lost."""


@dataclass(frozen=True)
class Loss:
    """The leader of ``stint`` starts without the offsets from ``kept`` to ``high``, which were committed.

    ``committed`` is the stint whose HWM had reached ``high``, ``earlier`` are those before this one. ``version`` is the
    change that elected the leader; None where the log does not have it, or the leader restarts. ``utc`` is the time of
    an event in ms since the epoch, None where it is not known, and ``line`` where it stands.
    """

    name: str
    views: Mapping[int, BrokerView]
    earlier: list[Stint]
    stint: Stint
    start: BecameLeader
    committed: Stint
    kept: int
    high: int
    version: PartitionVersion | None
    utc: Callable[[BrokerEvent], int | None]
    line: Callable[[BrokerEvent], str]

    @property
    def is_again(self) -> bool:
        """Whether the leader restarts within its epoch."""
        return bool(self.earlier) and self.earlier[-1].epoch == self.stint.epoch

    @property
    def election(self) -> Election:
        """Where the leader came from, as far as that is known."""
        return (None if self.version is None else self.version.election) or Election()

    @property
    def _place(self) -> tuple[Mapping[str, Any], int | None]:
        """Where and when it happened."""
        if self.version is None:
            return place(self.start), self.utc(self.start)
        return {"offset": self.version.position}, self.version.time

    @property
    def _lost(self) -> str:
        return f"{self.high - self.kept} committed offsets, [{self.kept}, {self.high})"

    @property
    def _differs(self) -> str:
        is_shorter = self.kept >= min(self.start.start_offset, self.high)
        return "" if is_shorter else f"; its log differs from offset {self.kept} on"

    def findings(self) -> Iterator[Finding]:
        """What is broken by it."""
        stint, views = self.stint, self.views
        held = [
            _held(views[b], b, stint.epoch, self.earlier, self.kept, self.high)
            for b in sorted(views)
            if b != stint.broker
        ]
        facts = self._facts([found for found in held if found is not None])
        yield self._leader_lacks(facts)
        yield from self._survive()
        if self.election.clean:
            yield self._was_electable(facts)
        if stint.visible is not None:
            yield self._was_shown(*stint.visible)

    def _facts(self, had: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "leader": self.stint.broker, "leader_epoch": self.stint.epoch, "elected_from": self.election.source,
            "restarted": self.is_again, "leo": self.start.start_offset, "first_lost": self.kept,
            "end_lost": self.high, "lost": self.high - self.kept, "hwm": self.high,
            "hwm_broker": self.committed.broker, "hwm_epoch": self.committed.epoch, "had": had,
        }  # fmt: skip

    def _leader_lacks(self, facts: Mapping[str, Any]) -> Finding:
        source, committed = self.election.source, self.committed
        how = "restarted in" if self.is_again else f"elected from {source} for" if source else "elected for"
        where = "" if committed.reached is None else f" ({self.line(committed.reached)})"
        risk = f"{self._lost}, are lost; " + (
            "; ".join(_had_in_words(held) for held in facts["had"]) or "nobody else is known to have had them"
        )
        return Finding(
            statements.leader_completeness.source, statements.leader_completeness.name, self.name, *self._place,
            f"broker {self.stint.broker}, {how} leader epoch {self.stint.epoch}, starts at LEO "
            f"{self.start.start_offset}; in leader epoch {committed.epoch} the HWM of broker {committed.broker} had "
            f"reached {self.high}{where}{self._differs}",
            risk, KIP, facts=facts,
        )  # fmt: skip

    def _survive(self) -> Iterator[Finding]:
        """No replica has the records any more, where each replica's log says how far it came."""
        if self.version is None:
            return
        longest = _longest(self.views, self.version.replicas, self.stint.broker, self.stint.epoch)
        if longest is None or log_rules.is_held(end=max(self.kept, longest), hwm=self.high):
            return
        epoch, rest, high = self.stint.epoch, max(self.kept, longest), self.high
        yield Finding(
            statements.committed_records_survive.source, statements.committed_records_survive.name, self.name,
            *self._place,
            f"in leader epoch {epoch} no log of a replica went on to the HWM {high} that broker "
            f"{self.committed.broker} had reached in leader epoch {self.committed.epoch}",
            f"{high - rest} committed offsets, [{rest}, {high}), are in the log of no replica any more", KIP,
            facts={"leader_epoch": epoch, "gone": high - rest, "first_gone": rest, "end_gone": high},
        )  # fmt: skip

    def _was_electable(self, facts: Mapping[str, Any]) -> Finding:
        source = self.election.source
        return Finding(
            "966.6" if source == ELR else "B4", statements.electable_completeness.name, self.name, *self._place,
            f"broker {self.stint.broker} was elected from {source} for leader epoch {self.stint.epoch} with LEO "
            f"{self.start.start_offset}, without all that was committed up to the HWM {self.high}",
            self._lost, KIP, facts=facts,
        )  # fmt: skip

    def _was_shown(self, shown: int, event: BrokerEvent) -> Finding:
        epoch, kept, high = self.stint.epoch, self.kept, self.high
        return Finding(
            statements.consumers_read_consistently.source, statements.consumers_read_consistently.name, self.name,
            place(event), self.utc(event),
            f"consumers were shown the HWM {high} in leader epoch {self.committed.epoch}, and {shown} in leader "
            f"epoch {epoch}{self._differs}",
            f"{high - kept} offsets, [{kept}, {high}): who read them is out of range, or goes on with other records",
            KIP, facts={"leader_epoch": epoch, "shown_before": high, "shown": shown},
        )  # fmt: skip


def _at(view: BrokerView, epoch: int) -> int | None:
    """Where a broker's log ended when it first led or followed in a leader epoch or a later one, if that is known."""
    return next((p.offset for p in view.positions if p.epoch >= epoch), None)


def _longest(
    views: Mapping[int, BrokerView], replicas: tuple[int, ...], leader: int, epoch: int
) -> int | None:
    """The end of the longest log of the other replicas when a leader epoch began; None where one is not known."""
    ends = [_at(views[b], epoch) if b in views else None for b in replicas if b != leader]
    known = [end for end in ends if end is not None]
    return max(known, default=0) if len(known) == len(ends) else None


def _held(
    view: BrokerView, broker: int, epoch: int, earlier: list[Stint], low: int, high: int
) -> dict[str, Any] | None:
    """How many of the offsets [low, high) a broker had before a leader epoch, as far as the logs say; None for none."""
    own = _at(view, epoch)
    is_least = own is None
    if own is None:
        known = [s.hwm for s in earlier if s.broker == broker]
        last = next((s for s in reversed(earlier) if s.broker != broker), None)
        if last is not None and broker in last.leos:
            known.append(last.leos[broker])
        own = max(known, default=0)
    had = max(0, min(own, high) - low)
    return {"broker": broker, "records": had, "at_least": is_least, "leo": own} if had else None


def _had_in_words(held: Mapping[str, Any]) -> str:
    at_least = "at least " if held["at_least"] else ""
    return f"broker {held['broker']} had {at_least}{held['records']} of them (LEO {held['leo']})"


def place(event: BrokerEvent) -> dict[str, Any]:
    """Where an event stands, as the position of a finding."""
    return {"file": str(event.path), "line": event.line}
