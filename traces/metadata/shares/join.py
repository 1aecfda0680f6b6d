"""One report of what the shares of a metadata log's partitions found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from highwater.traces.kafka.metadata_log import MetadataLog
from highwater.traces.metadata import snapshots
from highwater.traces.metadata.replay import Sequence as InSequence
from highwater.traces.metadata.replay import begins_with
from highwater.traces.metadata.reporting.doubts import Doubts
from highwater.traces.metadata.reporting.reporter import disagreement
from highwater.traces.metadata.shares.follow import GROUPS, Place, ShareResult
from highwater.traces.metadata.shares.route import RangeHead
from highwater.traces.metadata.sharing import Stretch, join_reaches
from highwater.traces.reports.findings import Finding, Unexplained
from highwater.traces.reports.report import Report
from highwater.traces.rules.agreement import Agreement, Narrowed


def ends(shares: Sequence[ShareResult]) -> dict[Stretch, int]:
    """Where a change of one share ends what a decision of another reached beyond.

    Where there is any, the log has to be followed again, by those who know.
    """
    return join_reaches([s.share.reaches for s in shares])


def first_error(heads: Sequence[RangeHead], shares: Sequence[ShareResult]) -> str | None:
    """What could not be read, the first in the order of the log."""
    found = [s.error for s in shares if s.error is not None]
    found += [((number + 1) * GROUPS - 1, h.error) for number, h in enumerate(heads) if h.error is not None]
    return min(found)[1] if found else None


def join(
    log: MetadataLog, heads: Sequence[RangeHead], shares: Sequence[ShareResult]
) -> tuple[Report, list[Unexplained]]:
    """The report, and those of its lines that no share has: of rules that disagree, and of snapshots.

    ``heads`` are those of all ranges in order, ``shares`` all shares in order.
    """
    first = shares[0]
    report = Report(first.report.input, first.report.kind, "")
    report.records = sum(h.records for h in heads)
    report.changes = sum(s.report.changes for s in shares)
    report.partitions = _most(shares)
    for skipped in (*(h.skipped for h in heads), first.report.skipped, *(s.skipped for s in shares)):
        for what, number in skipped.items():
            report.skipped[what] = report.skipped.get(what, 0) + number
    agreed, lines = _agreed(shares)
    more, notes = _snapshots(log, shares)
    lines += more
    doubts = Doubts()
    for share in shares:
        doubts.merge(share.doubts)
    lines = [(place, _marked(line, doubts)) for place, line in lines]
    own = [line for _, line in lines if isinstance(line, Unexplained)]
    for share in shares:
        lines += share.lines
    lines.sort(key=lambda pair: pair[0])
    for _, line in lines:
        report.find(line) if isinstance(line, Finding) else report.add(line)
    report.unexplained_count = sum(s.report.unexplained_count for s in shares) + len(own)
    report.unreliable_count = sum(s.report.unreliable_count for s in shares)
    report.unreliable_count += sum(not line.reliable for line in own)
    report.doubts = doubts.listed()
    for share in shares:
        for name in share.report.findings_count:
            report.findings_count[name] = sum(s.report.findings_count.get(name, 0) for s in shares)
    chosen = agreed.chosen()
    report.profile, report.rules = chosen.profile, tuple(sorted(chosen.rules))
    report.figures = _figures(shares)
    report.final = {name: one for s in shares for name, one in s.report.final.items()}
    report.controllers = first.report.controllers
    report.notes = [*log.notes, *(note for h in heads for note in h.notes), *first.notes]
    if log.start is not None:
        report.notes.append(begins_with(log.start))
    report.notes += [*notes, *(remark for h in heads for remark in h.remarks)]
    return report, own


def _marked(line: Unexplained | Finding, doubts: Doubts) -> Unexplained | Finding:
    is_reliable = doubts.is_reliable(line.position["offset"], line.partition)
    return line if is_reliable else replace(line, reliable=False)


def _most(shares: Sequence[ShareResult]) -> int:
    """How many partitions there were at most, of all shares at a time."""
    there = most = 0
    for _, _, more in sorted(change for share in shares for change in share.share.populations):
        there += more
        most = max(most, there)
    return most


def _agreed(shares: Sequence[ShareResult]) -> tuple[Agreement, list[tuple[Place, Unexplained | Finding]]]:
    """The sets of rules that are left when all shares are heard, and where there was none."""
    sets, *later = shares[0].rules
    agreed = Agreement(sets)
    for renewed in later:
        agreed.renew(renewed)
    narrowed = sorted((n for s in shares for n in s.share.narrowed), key=lambda pair: (pair[0], *pair[1][:3]))
    groups: dict[Narrowed, int] = {n: group for group, n in narrowed}
    lines: list[tuple[Place, Unexplained | Finding]] = []
    for found in agreed.settle(n for _, n in narrowed):
        place = (groups[found.at], found.at.offset, found.at.partition, False)
        lines.append((place, disagreement(found)))
    return agreed, lines


def _snapshots(
    log: MetadataLog, shares: Sequence[ShareResult]
) -> tuple[list[tuple[Place, Unexplained | Finding]], list[str]]:
    """The first differences of each snapshot, and a note where there are more."""
    lines: list[tuple[Place, Unexplained | Finding]] = []
    notes = []
    checks = InSequence(log).checks
    for number in shares[0].checks:
        found = [pair for share in shares for pair in share.checks[number]]
        found.sort(key=lambda pair: pair[0])
        if len(found) > snapshots.LIMIT:
            notes.append(snapshots.more_than_limit(checks[number]))
        lines += found[: snapshots.LIMIT]
    return lines, notes


def _figures(shares: Sequence[ShareResult]) -> dict[str, int]:
    figures: dict[str, int] = {}
    for share in shares:
        for name, value in share.report.figures.items():
            figures[name] = (
                max(figures.get(name, 0), value)
                if name.startswith("longest")
                else (figures.get(name, 0) + value)
            )
    figures["brokers"] = shares[0].report.figures["brokers"]
    if shares[0].checks:
        figures["snapshots compared"] = len(shares[0].checks)
    return figures
