"""The replay of one log in shares, whoever runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from highwater.traces.kafka.metadata_log import MetadataLog
from highwater.traces.metadata.shares.follow import ShareResult
from highwater.traces.metadata.shares.join import ends, first_error, join
from highwater.traces.metadata.shares.plan import Range
from highwater.traces.metadata.shares.route import RangeHead
from highwater.traces.metadata.sharing import Stretch
from highwater.traces.reports.findings import Unexplained
from highwater.traces.reports.report import Report

Ends = Mapping[Stretch, int]
RunShares = Callable[[Sequence[Range], Ends], tuple[list[RangeHead], list[ShareResult]]]
"""Reads the ranges and follows all shares: the ranges' heads and what the shares found, each in order."""


class Unreadable(Exception):
    """A log that cannot be read; the message is that of a TraceError."""


def replay_shares(
    log: MetadataLog, parts: Sequence[Range], run: RunShares
) -> tuple[Report, list[Unexplained]]:
    """The report on a log, and those of its lines that no share has. Raises Unreadable.

    Where a range ends within a transaction it is read together with the next one, and where a share could not know
    that another one's change broke a decision off, all are followed again.
    """
    heads, shares = run(parts, {})
    while any(head.is_open for head in heads[:-1]):
        parts = _joined(parts, heads)
        heads, shares = run(parts, {})
    if wrong := first_error(heads, shares):
        raise Unreadable(wrong)
    if known := ends(shares):
        heads, shares = run(parts, known)
    return join(log, heads, shares)


def _joined(parts: Sequence[Range], heads: Sequence[RangeHead]) -> list[Range]:
    found: list[Range] = []
    is_open = False
    for part, head in zip(parts, heads, strict=True):
        if is_open:
            found[-1] = found[-1].with_next(part)
        else:
            found.append(part)
        is_open = head.is_open
    return found
