"""The report: the results of a replay, as JSON and as text for people.

The text begins with the worst incident, and takes a screenful at most. Pipes and files get the lines unchanged;
terminals get them coloured and folded between words. Everything from the input passes through ``printable``, so that
no input can send control sequences to a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import islice
from typing import Any

from highwater.model.versions import versions
from highwater.traces.reading import printable
from highwater.traces.reports.advice import HAS, TRUNCATED, UNKNOWN, Holder
from highwater.traces.reports.findings import LIMIT, Candidate, Damage, Doubt, Finding, Unexplained, as_json
from highwater.traces.reports.incidents import AT_RISK, LOST, NOTICE, STUCK, UNCLEAN, Incident, incidents
from highwater.traces.reports.observed import (
    Controllers,
    Course,
    FinalState,
    PartitionChange,
    ReplicaEnd,
    SettingInForce,
)
from highwater.traces.reports.text import AT_LEAST, BOUNDS, apart, count, duration, fold, moment, utc

LIMIT_CHANGES = 500
"""The most changes of a partition in its timeline; later changes are only counted."""
_WRITTEN = (
    "input", "kind", "profile", "rules", "operations", "records", "partitions", "changes", "skipped", "unexplained",
    "unexplained_count", "incidents", "final", "logs", "controllers", "findings", "findings_count", "unreliable_count",
    "doubts", "damage", "notes", "figures", "interrupted",
)  # fmt: skip
"""The fields of a report's JSON, in order; ``seconds`` and ``versions`` follow."""


@dataclass
class Timeline:
    """The first ``LIMIT_CHANGES`` changes of one partition, in order. ``total`` is the number of all its changes."""

    partition: str
    changes: list[PartitionChange] = field(default_factory=list)
    total: int = 0
    settings: list[SettingInForce] = field(default_factory=list)
    """The first ``LIMIT_CHANGES`` changes of settings while the partition exists."""
    courses: list[Course] = field(default_factory=list)
    """HWM and LEO of each broker, if there are brokers' logs."""

    def to_json(self) -> dict[str, Any]:
        """The timeline as plain data for JSON, without settings and courses."""
        return {
            "partition": self.partition,
            "total": self.total,
            "changes": [c.to_json() for c in self.changes],
        }


@dataclass
class Report:
    """The results of the replay of one input.

    - ``operations`` counts lines, ``records`` metadata records, ``changes`` records that change a partition.
    - ``skipped`` counts ignored records or lines, by type.
    - ``unexplained_count`` counts the lines that do not conform; ``unexplained`` has the first ``LIMIT`` of them.
    - ``findings_count`` counts violations by property; ``findings`` has the first ``LIMIT`` of each property.
    - ``doubts`` are gaps in the input. ``unreliable_count`` counts nonconforming lines and violations that a gap
      makes unreliable.
    - ``damage`` has the places after which the input could not be read. ``notes`` are remarks on the input.
    - ``figures`` are totals by name, such as milliseconds under min ISR. ``timelines`` are filled on request.
    - ``final`` has the partitions that are offline or violate a property at the end, and those with findings.
    - ``logs`` has the ends of the replicas' logs, for partitions that are offline or have findings.
    - ``deleted`` has metadata offset and time of the deletion of topics with findings, by topic id.
    - ``bytes_total`` is 0 if unknown. ``interrupted`` is True if the replay was stopped before the end.
    """

    input: str
    kind: str
    profile: str
    rules: tuple[str, ...] = ()
    operations: int = 0
    records: int = 0
    partitions: int = 0
    changes: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    unexplained: list[Unexplained] = field(default_factory=list)
    unexplained_count: int = 0
    findings: list[Finding] = field(default_factory=list)
    findings_count: dict[str, int] = field(default_factory=dict)
    unreliable_count: int = 0
    doubts: list[Doubt] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)
    final: dict[str, FinalState] = field(default_factory=dict)
    logs: dict[str, list[ReplicaEnd]] = field(default_factory=dict)
    deleted: dict[str, tuple[int, int]] = field(default_factory=dict)
    controllers: Controllers = field(default_factory=Controllers)
    timelines: dict[str, Timeline] = field(default_factory=dict)
    seconds: float = 0.0
    bytes_read: int = 0
    bytes_total: int = 0
    interrupted: bool = False

    @property
    def explained(self) -> bool:
        """True if every line conforms, no property is violated, and the input has no gap or damage."""
        problems = self.unexplained_count or self.findings_count
        return not problems and not self.doubts and not self.damage

    @property
    def is_violated(self) -> bool:
        """True if there is a reliable violation, or a reliable record that does not conform."""
        return self.unexplained_count + sum(self.findings_count.values()) > self.unreliable_count

    @property
    def is_empty(self) -> bool:
        """True if nothing was checked: the input has no partition, no change and no operation."""
        return not (self.partitions or self.changes or self.operations)

    @property
    def incidents(self) -> list[Incident]:
        """The incidents that the findings show, the worst first."""
        return incidents(
            self.findings,
            self.controllers,
            self.profile,
            final=self.final,
            logs=self.logs,
            deleted=self.deleted,
            has_elr="eligible_leader_replicas" in self.rules or not self.rules,
            has_logs="broker logs" in self.figures,
        )

    @property
    def offline(self) -> list[FinalState]:
        """The partitions without a leader at the end of the input, by name."""
        return [one for _, one in sorted(self.final.items()) if one.is_offline]

    def is_doubted(self, partition: str | None) -> bool:
        """True if a gap in the input (``doubts``) concerns the partition."""
        return any(d.partitions is None or partition in d.partitions for d in self.doubts)

    def __str__(self) -> str:
        return "\n".join(summary(self))

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def add(self, line: Unexplained) -> None:
        """Count a line that does not conform; store it if fewer than LIMIT are stored."""
        self.unexplained_count += 1
        self.unreliable_count += not line.reliable
        if len(self.unexplained) < LIMIT:
            self.unexplained.append(line)

    def find(self, finding: Finding) -> None:
        """Count a finding; store it if fewer than LIMIT of its property are stored."""
        count = self.findings_count.get(finding.property, 0)
        self.findings_count[finding.property] = count + 1
        self.unreliable_count += not finding.reliable
        if count < LIMIT:
            self.findings.append(finding)

    def to_json(self) -> dict[str, Any]:
        """The report as plain data for JSON, in the form of ``report.schema.json``."""
        written = {name: as_json(getattr(self, name)) for name in _WRITTEN}
        for name in ("final", "logs"):
            written[name] = {partition: as_json(one) for partition, one in written[name].items()}
        return {**written, "seconds": round(self.seconds, 3), "versions": versions("report")}


# --- text ---

_RULES, _STATES, _CANDIDATES, _CHECKS, _DIFFERENCES, _SKIPPED, _NOTES, _FIGURES = 6, 4, 2, 2, 3, 6, 2, 8
_DOUBTS, _PARTITIONS = 4, 3
"""The most gaps in the input, and the most partitions of a gap, that the summary lists; the rest are counted."""
_WIDTH, _STATE_WIDTH = 160, 600
"""The most characters of a value, and of a state of a partition or broker."""
_DEEP = 20
"""Values nested deeper than this are shown as "…"."""
_INCIDENTS, _IN_FULL, _COMMANDS = 6, 2, 4
"""Limits of the summary: incidents after the first, incidents in full, and commands of a step."""
_NAME = 300
"""The most characters of a partition name; Kafka's names are shorter."""
_SENTENCE = 900
"""The most characters of a sentence."""
_WORK = frozenset({"beliefs", "steps explained"})
"""Figures about the replay's own work."""
_MESSAGES, _KINDS = "messages ", ("explained", "guessed", "outside")
"""The prefix of the figures about messages in request logs, and the kinds that the summary shows."""
_PROFILES = {
    **{f"kafka_4_{minor}": f"KIP-966 as Kafka 4.{minor} implements it" for minor in (0, 2, 3)},
    **{f"kafka_4_{minor}_elr_off": f"the rules of Kafka 4.{minor} without ELR" for minor in (2, 3)},
}
_COUNTED = ((AT_RISK, "at risk", "at risk"), (UNCLEAN, "unclean election", None), (NOTICE, "notice", None))
_ACRONYMS = {"isr": "ISR", "elr": "ELR", "hwm": "HWM"}
_DURATION_WORDS = frozenset({"ms", "milliseconds"})


@dataclass(frozen=True)
class _Line:
    """A line of the summary, with its indent and its kind.

    The kind is one of ``verdict``, ``head``, ``bad``, ``maybe``, ``note``, ``quiet``, ``command``, or empty.
    """

    text: str
    indent: int = 0
    kind: str = ""


def figure(name: str, value: int) -> str:
    """A total with its name, as text. If ``ms`` or ``milliseconds`` is a word of the name, ``value`` is in ms."""
    words = [_ACRONYMS.get(word, word) for word in name.replace("_", " ").split()]
    if _is_duration(name):
        return f"{printable(' '.join(w for w in words if w not in _DURATION_WORDS))} {duration(value)}"
    return f"{printable(' '.join(words))} {value:,}"


def _interest(item: tuple[str, int]) -> tuple[bool, bool]:
    """A sort key for figures: durations come first, figures about the replay's own work last."""
    return item[0] in _WORK, not _is_duration(item[0])


def _is_duration(name: str) -> bool:
    return bool(_DURATION_WORDS & set(name.replace("_", " ").split()))


def headline(report: Report) -> str:
    """The result in one line: the first of the following that exists.

    - The worst incident.
    - The number of records that do not conform.
    - The number of violations.
    - "INCOMPLETE INPUT", "Nothing checked" or "No problem found".
    """
    begun = "INTERRUPTED: " if report.interrupted else ""
    begun += "DAMAGED INPUT: " if report.damage else ""
    found = report.incidents
    if found:
        more = f" (and {count(len(found) - 1, 'more incident')})" if len(found) > 1 else ""
        return f"{begun}{printable(found[0].label, _SENTENCE)}{more}"
    if report.unexplained_count:
        return f"{begun}{_nonconforming(report)}"
    if number := sum(report.findings_count.values()):
        possible = "" if any(f.certain for f in report.findings) else "POSSIBLY "
        properties = count(len(report.findings_count), "property", "properties")
        return f"{begun}{possible}VIOLATED: {count(number, 'violation')} of {properties}{_unreliable(report)}"
    if report.doubts:
        return f"{begun}INCOMPLETE INPUT: no problem found in the complete part"
    so_far = " so far" if report.interrupted or report.damage else ""
    if report.is_empty:
        return f"{begun}Nothing checked{so_far}: the input has no partition, no change and no operation"
    return f"{begun}No problem found{so_far}: every {_unit(report)} conforms to {rules_in_words(report)}"


def rules_in_words(report: Report) -> str:
    """The display name of the rules of the report's profile."""
    return _PROFILES.get(report.profile) or f"the rules of {printable(report.profile, 80)}"


def _unit(report: Report) -> str:
    return "operation" if report.operations and not report.records else "change"


def _nonconforming(report: Report) -> str:
    number = count(report.unexplained_count, "operation" if report.operations else "record")
    no = "do" if report.unexplained_count > 1 else "does"
    return f"DOES NOT CONFORM: {number} {no} not conform to {rules_in_words(report)}{_unreliable(report)}"


def in_all(reports: Sequence[Report], rate: bool = True) -> str:
    """The results of all inputs in one line; with ``rate``, also the records per second."""
    read = sum(r.records or r.operations for r in reports)
    found = [i for r in reports for i in r.incidents if i.certain]
    parts = []
    lost = [i for i in found if i.severity == LOST]
    if lost:
        number = count(sum(i.lost or 0 for i in lost), "committed record")
        standings = {i.standing for i in lost}
        number = BOUNDS[standings.pop() if len(standings) == 1 else AT_LEAST] + number
        parts.append(f"{number} lost ({_few_names(i.partition for i in lost)})")
    stuck = [i for i in found if i.severity == STUCK]
    if stuck:
        parts.append(f"{count(len(stuck), 'partition')} stuck ({_few_names(i.partition for i in stuck)})")
    for severity, one, more in _COUNTED:
        if number_of := sum(i.severity == severity for i in found):
            parts.append(count(number_of, one, more))
    if possible := sum(not i.certain for r in reports for i in r.incidents):
        parts.append(count(possible, "possible incident"))
    if wrong := sum(r.unexplained_count for r in reports):
        parts.append(f"{wrong:,} not conforming")
    if others := sum(sum(r.findings_count.values()) for r in reports if not r.incidents):
        parts.append(count(others, "other violation"))
    if doubted := sum(bool(r.doubts) for r in reports):
        parts.append(f"{count(doubted, 'input')} incomplete")
    if damaged := sum(bool(r.damage) for r in reports):
        parts.append(f"{count(damaged, 'input')} damaged")
    seconds = sum(r.seconds for r in reports)
    speed = f" ({read / seconds:,.0f} records a second)" if rate and seconds else ""
    inputs = f"{count(len(reports), 'input')}, {count(read, 'record')}"
    if not parts:
        parts = ["nothing checked" if all(r.is_empty for r in reports) else "no problem found"]
    return f"{inputs}: {', '.join(parts)}{speed}"


def _few_names(partitions: Iterable[str | None]) -> str:
    names = [printable(name, _NAME) for name in dict.fromkeys(partitions) if name is not None]
    return ", ".join(_few(names, _PARTITIONS, "more"))


def _unreliable(report: Report) -> str:
    reported, unreliable = (
        report.unexplained_count + sum(report.findings_count.values()),
        report.unreliable_count,
    )
    if not unreliable:
        return ""
    which = "all" if unreliable == reported else f"{unreliable:,}"
    return f" ({which} not reliable: incomplete input)"


def firsts(report: Report) -> list[Finding]:
    """The first finding of each property: a reliable one if there is any, and a certain one of these.

    Certain ones come first, then they are ordered by rule number.
    """
    found: dict[str, Finding] = {}
    for one in sorted(report.findings, key=lambda f: (not f.reliable, not f.certain)):
        found.setdefault(one.property, one)
    return sorted(found.values(), key=lambda f: (not f.certain, _natural(f.rule), f.property))


def summary(report: Report) -> list[str]:
    """The summary of one input, as plain lines for pipes and files."""
    return [" " * line.indent + line.text for line in _lines(report)]


def styled_summary(report: Report, width: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The lines of ``summary``, folded between words at a width, each with its style as arguments of ``click.style``.

    Continuation lines have two more columns of indent.
    """
    severe = (
        report.incidents
        and report.incidents[0].severity not in (LOST, STUCK)
        and not report.unexplained_count
    )
    verdict = {"fg": "green"} if report.explained else {"fg": "yellow" if severe else "red", "bold": True}
    styles: dict[str, dict[str, Any]] = {
        "head": {"bold": True}, "verdict": verdict, "bad": {"fg": "red"}, "maybe": {"fg": "yellow"},
        "note": {"fg": "yellow"}, "quiet": {"dim": True}, "command": {"fg": "cyan"},
    }  # fmt: skip
    for line in _lines(report):
        indent = " " * line.indent
        for text in fold(line.text, indent, width, f"{indent}  ") or [""]:
            yield text, styles.get(line.kind, {})


def _lines(report: Report) -> Iterator[_Line]:
    """Yield the lines of the summary.

    The worst incident comes first, then other incidents, then records that do not conform, then the rest.
    """
    yield _Line(headline(report), kind="verdict")
    yield from _caveats(report)
    found = report.incidents
    if found:
        yield from _incident(found[0])
    yield from _others(found)
    yield from _offline(report)
    yield from _unexplained(report)
    yield from _findings(report)
    yield from _rest(report)


def _incident(incident: Incident) -> Iterator[_Line]:
    """The lines below an incident's headline: the cause, the surviving copies and the steps."""
    yield _Line(f"cause: {printable(' '.join(incident.cause), _SENTENCE)}", 2)
    if incident.holders:
        yield _Line(f"surviving copies: {who_has(incident.holders)}", 2)
    label = ""
    for step in incident.steps:
        yield _Line(
            f"{step.when}: {step.text}" if step.when != label else step.text, 2 if step.when != label else 4
        )
        label = step.when
        yield from (_Line(f"$ {printable(c, _SENTENCE)}", 6, "command") for c in step.commands[:_COMMANDS])
        if (more := len(step.commands) - _COMMANDS) > 0:
            yield _Line(f"and {count(more, 'more command')}; --json and --html list them", 6, "quiet")
    if not incident.defects and incident.severity in (LOST, STUCK):
        yield _Line("known bug: none recognized", 2)
    for known in incident.defects:
        near = f"; see also {', '.join(known.upstream)}" if known.upstream else ""
        yield _Line(f"known bug: {known.title} {known.entry}{near}", 2)


def who_has(holders: Sequence[Holder]) -> str:
    """The surviving copies of lost records, in words: the state of each replica."""
    parts = []
    for h in holders:
        since = "" if h.time is None else f" at {moment(h.time)}"
        if h.state == HAS:
            has = f"{BOUNDS[h.standing]}{h.records:,}"
            where = "" if h.directory is None else f" in {printable(h.directory, _SENTENCE)}"
            parts.append(f"broker {h.broker} has {has}{where} (last seen{since or ' in its dump'})")
        elif h.state == TRUNCATED:
            to = "" if h.offset is None else f" to offset {h.offset}"
            parts.append(f"broker {h.broker} truncated its log{to}{since}")
        elif h.state == UNKNOWN:
            parts.append(f"broker {h.broker}: not known")
        else:
            parts.append(f"broker {h.broker} lacks them")
    if any(h.state == HAS for h in holders):
        return "; ".join(parts)
    none = "not known; " if any(h.state == UNKNOWN for h in holders) else "none; "
    return none + "; ".join(parts)


def _others(found: Sequence[Incident]) -> Iterator[_Line]:
    """The lines about the incidents after the first one, grouped by cause."""
    if not found:
        return
    yield from _same_cause(found, found[0])
    heads = [i for i in found[1:] if i.group == i.id]
    for number, incident in enumerate(heads[:_INCIDENTS]):
        is_bad = incident.severity in (LOST, STUCK) and incident.certain
        yield _Line(printable(incident.label, _SENTENCE), 0, "bad" if is_bad else "maybe")
        if number < _IN_FULL:
            yield from _incident(incident)
        yield from _same_cause(found, incident)
    if len(heads) > _INCIDENTS:
        yield _Line(
            f"and {count(len(heads) - _INCIDENTS, 'more incident')}; --json and --html list them", 0, "quiet"
        )


def _same_cause(found: Sequence[Incident], incident: Incident) -> Iterator[_Line]:
    same = [i.partition for i in found if i.group == incident.id and i is not incident]
    if same:
        yield _Line(f"same cause: {count(len(same), 'more partition')}: {_few_names(same)}", 2)


def _offline(report: Report) -> Iterator[_Line]:
    """The line about offline partitions at the end of the input, if there are any."""
    found = report.offline
    if not found:
        return
    waiting = [f"{printable(one.partition, _NAME)} ({_waits(one.waits_for)})" for one in found[:_PARTITIONS]]
    names = ", ".join(_few(waiting, _PARTITIONS, "more", len(found)))
    yield _Line(f"offline at the end of the input: {count(len(found), 'partition')}: {names}", 0, "maybe")


def _waits(members: Sequence[int]) -> str:
    if not members:
        return "no eligible leader"
    more = f" or {len(members) - _PARTITIONS} more" if len(members) > _PARTITIONS else ""
    return f"waits for broker {' or '.join(map(str, members[:_PARTITIONS]))}{more}"


def _findings(report: Report) -> Iterator[_Line]:
    """The lines about violated properties. For a property outside incidents they show the first violation."""
    names = [f"{printable(f.property, 60)} ({printable(f.rule, 20)})" for f in firsts(report)]
    if report.incidents and names:
        yield _Line(f"violated properties: {', '.join(_few(names, _FIGURES))}", 2, "quiet")
    in_incidents = {name for incident in report.incidents for name in incident.broken}
    found = [f for f in firsts(report) if f.property not in in_incidents]
    if not found:
        return
    yield _Line("violations", kind="head")
    short = apart(str(f.position["file"]) for f in found if "file" in f.position)
    counts = [report.findings_count.get(f.property, 1) for f in found]
    for first, number in zip(found[:_RULES], counts, strict=False):
        yield _Line(_named(first, number), 2, "bad" if first.certain else "maybe")
        place = [printable(first.partition, _NAME)] if first.partition is not None else []
        yield _Line(", ".join([*place, _position(first.position, short), utc(first.time)]), 4)
        if first.summary:
            yield _Line(printable(first.summary, _SENTENCE), 4)
        if first.at_risk:
            yield _Line(f"at risk: {printable(first.at_risk, _SENTENCE)}", 4)
    if len(found) > _RULES:
        yield _Line(f"and {len(found) - _RULES} more properties; {_more(max(counts))}", 2, "quiet")
    elif sum(counts) > len(found):
        yield _Line(f"the first of each property; {_more(max(counts))}", 2, "quiet")


def _named(first: Finding, number: int) -> str:
    limits = ", ".join(["possible"] * (not first.certain) + ["not reliable"] * (not first.reliable))
    title = f"{printable(first.rule, 20)} {printable(first.property, 60)}" + (
        f" ({limits})" if limits else ""
    )
    title += f" ({printable(first.kip, 40)})" if first.kip else ""
    return title + (f": {number:,}, the first" if number > 1 else "")


def _caveats(report: Report) -> Iterator[_Line]:
    """The lines about damage and gaps of the input; with incidents, also about records that do not conform."""
    yield from (_Line(f"damaged: {printable(text, 400)}", 2, "bad") for text in map(_damage, report.damage))
    for text in _few([_doubt(doubt) for doubt in report.doubts], _DOUBTS, "more gaps in the input"):
        yield _Line(f"incomplete input: {text}", 2, "bad")
    if report.incidents and report.unexplained_count:
        yield _Line(_nonconforming(report), 2, "bad")


def _rest(report: Report) -> Iterator[_Line]:
    """The lines about the input, the rules, the figures, the notes and the skipped records."""
    counted = ((report.operations, "operation"), (report.records, "record"), (report.partitions, "partition"))
    counts = [count(number, one) for number, one in (*counted, (report.changes, "change")) if number]
    read = report.records or report.operations
    if report.seconds > 0:
        unit = "records" if report.records else "operations"
        counts.append(f"{report.seconds:.1f} s, {read / report.seconds:,.0f} {unit} a second")
    yield _Line(f"input: {printable(report.input)}", 2)
    yield _Line(
        f"{printable(report.kind)}, {printable(report.profile)}: {', '.join(counts) or 'nothing was read'}", 2
    )
    figures = {name: value for name, value in report.figures.items() if not name.startswith(_MESSAGES)}
    if "request log lines" in figures:
        parts = [f"{figures.pop('request log lines'):,} request log lines"]
        parts += [figure(f"{_MESSAGES}{kind}", report.figures[f"{_MESSAGES}{kind}"]) for kind in _KINDS]
        yield _Line(f"{', '.join(parts)}; --json lists them by action", 2)
    if figures:
        parts = [figure(name, value) for name, value in sorted(figures.items(), key=_interest)]
        yield _Line(", ".join(_few(parts, _FIGURES)), 2)
    for note in _few([printable(n) for n in report.notes], _NOTES, "more notes"):
        yield _Line(f"note: {note}", 2, "note")
    if report.skipped:
        most = sorted(report.skipped.items(), key=lambda item: (-item[1], item[0]))
        parts = [f"{printable(name, 60)} {count:,}" for name, count in most]
        yield _Line(f"skipped (not modelled): {', '.join(_few(parts, _SKIPPED, 'more types'))}", 2, "quiet")


def _damage(damage: Damage) -> str:
    """The damage in words, with the part of the input that was not read."""
    lost = [] if damage.bytes_lost is None else [count(damage.bytes_lost, "byte") + " of the file"]
    lost += [count(damage.segments_lost, "segment") + " after it"] if damage.segments_lost else []
    extent = f" ({' and '.join(lost)})" if lost else ""
    if damage.position.keys() == {"file"} and not extent:
        return damage.message
    return f"{damage.message}; not replayed: everything from metadata offset {damage.offset} on{extent}"


def _doubt(doubt: Doubt) -> str:
    text = printable(doubt.summary, 300)
    if doubt.partitions is not None:
        if not doubt.partitions:
            return text
        names = [printable(name, 80) for name in doubt.partitions]
        whom = ", ".join(_few(names, _PARTITIONS, "more partitions"))
    else:
        whom = "any partition"
    since = f" from {_position(doubt.position)} on" if doubt.position else ""
    return f"{text}. Results for {whom}{since} are not reliable"


def _unexplained(report: Report) -> Iterator[_Line]:
    """The lines about the first record that does not conform, and the number of the others."""
    if not report.unexplained:
        return
    first, number = report.unexplained[0], report.unexplained_count
    of = f"first of {number:,} that do not conform" if number > 1 else "does not conform"
    place = [_position(first.position), utc(first.time)]
    place += [printable(first.partition)] if first.partition is not None else []
    yield _Line(of, kind="head")
    yield _Line(", ".join(place), 2, "bad")
    yield from _details(first)
    if number > 1:
        yield _Line(f"and {number - 1:,} more that do not conform; {_more(number)}", 2, "quiet")


def _details(line: Unexplained) -> Iterator[_Line]:
    before = list(_states(line.before))
    if before:
        yield _Line("before:", 2)
        states = [
            f"{printable(path)}: {printable(_value(value), _STATE_WIDTH)}" for path, value in before[:_STATES]
        ]
        yield from (_Line(text, 4) for text in _few(states, _STATES, "more states", len(before)))
    yield from _nearest(line)


def nonconforming(line: Unexplained) -> str:
    """A line that does not conform, as text: its place, and the nearest steps with what rules them out."""
    of = f"{printable(line.partition)}: " if line.partition is not None else ""
    head = _Line(f"{_position(line.position)}: {of}does not conform")
    return "\n".join(" " * part.indent + part.text for part in (head, *_nearest(line)))


def _nearest(line: Unexplained) -> Iterator[_Line]:
    if not line.candidates:
        yield _Line("no action of the model comes close", 2)
    for candidate in line.candidates[:_CANDIDATES]:
        yield from _candidate(candidate)
    if len(line.candidates) > _CANDIDATES:
        yield _Line(f"and {len(line.candidates) - _CANDIDATES} more close actions", 2, "quiet")


def _candidate(candidate: Candidate) -> Iterator[_Line]:
    parameters = ", ".join(
        f"{printable(k, 40)}={printable(_value(v), 60)}" for k, v in candidate.parameters.items()
    )
    yield _Line(f"nearest: {printable(candidate.action)}({printable(parameters, _WIDTH)})", 2)
    for name in _few([printable(n) for n in candidate.refused_by], _CHECKS, "more checks"):
        yield _Line(f"refused by: {name}", 4)
    differing = [
        f"{printable(path)}: expected {printable(_value(model), _WIDTH)}, "
        f"recorded {printable(_value(recorded), _WIDTH)}"
        for path, (model, recorded) in islice(candidate.differences.items(), _DIFFERENCES)
    ]
    fields = _few(differing, _DIFFERENCES, "more fields", len(candidate.differences))
    yield from (_Line(text, 4) for text in fields)


def _more(count: int) -> str:
    return f"--json and --html list {'them all' if count <= LIMIT else f'the first {LIMIT}'}"


def _position(position: Mapping[str, Any], short: Mapping[str, str] | None = None) -> str:
    """A place in the input, in words; ``short`` gives shorter names of files."""
    parts = []
    for name, value in position.items():
        shown = (short or {}).get(value, value) if isinstance(value, str) else value
        parts.append(f"{printable(name, 40)} {shown if isinstance(shown, int) else printable(shown)}")
    return ", ".join(parts)


def _states(state: Mapping[str, Any], path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the fields of each level of a nested state, with the path of the level."""
    inner = {name: value for name, value in state.items() if isinstance(value, Mapping) and depth < _DEEP}
    own = {name: value for name, value in state.items() if name not in inner}
    if own:
        yield path or "state", own
    for name, value in inner.items():
        yield from _states(value, f"{path} {name}".strip(), depth + 1)


def _value(value: Any, depth: int = 0) -> str:
    if isinstance(value, str):
        return value
    if depth > _DEEP:
        return "…"
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {_value(v, depth + 1)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(v, depth + 1) for v in value)}]"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _few(texts: Sequence[str], limit: int, what: str = "more", count: int | None = None) -> list[str]:
    rest = (len(texts) if count is None else count) - limit
    return [*texts[:limit], f"and {rest} {what}"] if rest > 0 else list(texts)


def _natural(rule: str) -> tuple[tuple[int, str], ...]:
    """A sort key for rule numbers: 966.4 comes before 966.12."""
    parts = re.findall(r"[0-9]{1,9}|[^0-9]+", rule)
    return tuple((int(p), "") if p.isdecimal() else (10**10, p) for p in parts)
