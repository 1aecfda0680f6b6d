"""How far each replica's log went at the end of the input, by the brokers' logs or by dumps of their data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from highwater.traces.brokers.broker_view import BrokerView
from highwater.traces.brokers.lineage import Lineage
from highwater.traces.kafka.broker_events import BrokerEvent
from highwater.traces.kafka.data_dump import ReplicaLog
from highwater.traces.reports.observed import EMPTY, LogTruncation, ReplicaEnd

Utc = Callable[[BrokerEvent], int | None]


def by_broker_logs(views: Mapping[int, BrokerView], lineage: Lineage, utc: Utc) -> Iterator[ReplicaEnd]:
    """The end of each replica whose broker's log mentions it. Call it after ``Lineage.starts`` for all leaders."""
    for broker, view in sorted(views.items()):
        end = view.end
        if end is None:
            continue
        epoch = view.positions[-1].epoch if view.positions else -1
        heard = [
            s.leos[broker] for v in views.values() for s in v.stints if s.epoch == epoch and broker in s.leos
        ]
        leo = end.offset if end.is_exact else max([end.offset, *heard])
        yield ReplicaEnd(
            broker,
            leo,
            not end.is_exact,
            lineage.last_epoch(broker, leo) if leo else EMPTY,
            utc(end.event),
            epoch,
            tuple(LogTruncation(event.offset, utc(event), followed) for followed, event in view.truncations),
        )


def by_dumps(logs: Mapping[int, ReplicaLog]) -> Iterator[ReplicaEnd]:
    """The end of each replica whose data were dumped: as they were then."""
    for broker, log in sorted(logs.items()):
        epoch = log.epochs[-1][0] if log.epochs else EMPTY
        yield ReplicaEnd(broker, log.end, False, epoch, None, epoch)
