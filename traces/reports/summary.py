"""A replay's result for people: what matters first, and never more than a screenful of it.

The same lines go to pipes and files as they are, and to terminals coloured and folded between words. Whatever
comes from the input passes through ``printable``, so that no input can command a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from highwater.traces.reading.errors import printable
from highwater.traces.reports.findings import LIMIT, Candidate, Damage, Doubt, Finding, Unexplained
from highwater.traces.reports.incidents import LOST
from highwater.traces.reports.text import Folded, apart, duration, utc

if TYPE_CHECKING:
    from rich.console import RenderableType

    from highwater.traces.reports.report import Report

_RULES, _STATES, _CANDIDATES, _CHECKS, _DIFFERENCES, _SKIPPED, _NOTES, _FIGURES = 6, 4, 2, 2, 3, 6, 2, 8
_DOUBTS, _PARTITIONS = 4, 3
"""So many of each are said; of the rest it is said how many there are."""
_WIDTH, _STATE_WIDTH = 160, 600
"""A value, and a whole state, are cut after so many characters."""
_DEEP = 20
"""A value that is nested deeper is cut there."""
_INCIDENTS = 6
_NAME = 300
"""Kafka's names of partitions are shorter."""
_SENTENCE = 900
"""A sentence is cut only after so many characters."""
_WORK = frozenset({"beliefs", "steps explained"})
"""Figures of how much work it was."""
_MESSAGES, _KINDS = "messages ", ("explained", "guessed", "outside")
"""Figures of request logs, each with its parts by name."""
_ACRONYMS = {"isr": "ISR", "elr": "ELR", "hwm": "HWM"}
_DURATION_WORDS = frozenset({"ms", "milliseconds"})


@dataclass(frozen=True)
class PropertyGroup:
    """All findings of one property: how many there are, the first of them, and whether any is certain, or reliable."""

    rule: str
    property: str
    count: int
    kip: str
    first: Finding
    certain: bool
    reliable: bool = True


@dataclass(frozen=True)
class _Line:
    """A line, how far it is indented, and what it is.

    That is one of ``verdict``, ``head``, ``bad``, ``maybe``, ``note``, ``quiet``, or nothing special.
    """

    text: str
    indent: int = 0
    kind: str = ""


def figure(name: str, value: int) -> str:
    """A total with its name. Where ``ms`` is a word of the name, the value is a duration."""
    words = [_ACRONYMS.get(word, word) for word in name.replace("_", " ").split()]
    if _is_duration(name):
        return f"{printable(' '.join(w for w in words if w not in _DURATION_WORDS))} {duration(value)}"
    return f"{printable(' '.join(words))} {value:,}"


def _interest(item: tuple[str, int]) -> tuple[bool, bool]:
    """Durations first; how much work it was last."""
    return item[0] in _WORK, not _is_duration(item[0])


def _is_duration(name: str) -> bool:
    return bool(_DURATION_WORDS & set(name.replace("_", " ").split()))


def verdict(report: Report) -> str:
    """The answer in a few words: explained or not, how many findings, and whether that is sure."""
    begun = "interrupted: " if report.interrupted else ""
    begun += "damaged: " if report.damage else ""
    begun += "not sure: " if report.doubts else ""
    found = sum(report.findings_count.values())
    certain = any(f.certain for f in report.findings)
    properties = _count(len(report.findings_count), "property", "properties")
    findings = f"{_count(found, 'finding' if certain else 'possible finding')} of {properties}"
    if lost := sum(i.lost or 0 for i in report.incidents if i.certain):
        findings = f"{_count(lost, 'committed record')} lost, {findings}"
    if report.unexplained_count:
        wrong = _count(report.unexplained_count, "line" if report.operations else "record")
        return f"{begun}{wrong} not explained" + (f", {findings}" if found else "") + _unreliable(report)
    so_far = " so far" if report.interrupted or report.damage else ""
    so_far = " as far as it is known" if report.doubts else so_far
    return f"{begun}explained{so_far}" + (f", but {findings}" if found else "") + _unreliable(report)


def _unreliable(report: Report) -> str:
    """How many of the lines that were told are not reliable."""
    told, unreliable = report.unexplained_count + sum(report.findings_count.values()), report.unreliable_count
    if not unreliable:
        return ""
    return "; none of it is reliable" if unreliable == told else f"; {unreliable:,} of these are not reliable"


def groups(report: Report) -> list[PropertyGroup]:
    """Findings by property, in the order of the catalogue of rules."""
    by_property: dict[str, list[Finding]] = {}
    for found in report.findings:
        by_property.setdefault(found.property, []).append(found)
    made = [
        PropertyGroup(
            found[0].rule,
            name,
            report.findings_count.get(name, len(found)),
            next((f.kip for f in found if f.kip), ""),
            next((f for f in found if f.certain), found[0]),
            any(f.certain for f in found),
            any(f.reliable for f in found),
        )
        for name, found in by_property.items()
    ]
    return sorted(made, key=lambda g: (not g.certain, _natural(g.rule), g.property))


def summary(report: Report) -> list[str]:
    """What was found in one input, as plain lines for pipes and files."""
    return [" " * line.indent + line.text for line in _lines(report)]


def rich_summary(report: Report) -> RenderableType:
    """What was found in one input, for a terminal: the lines of ``summary``, folded between words and coloured."""
    verdict_style = "green" if report.explained else "bold red"
    styles = {
        "head": "bold", "verdict": verdict_style, "bad": "red", "maybe": "yellow", "note": "yellow", "quiet": "dim",
    }  # fmt: skip
    return Folded([(line.text, line.indent, styles.get(line.kind, "")) for line in _lines(report)])


def _lines(report: Report) -> Iterator[_Line]:
    """What matters first: the verdict, what is not known, incidents, what is not explained, findings, all the rest."""
    yield from _head(report)
    yield from _incidents(report)
    yield from _unexplained(report)
    yield from _findings(report)
    yield from _rest(report)


def _incidents(report: Report) -> Iterator[_Line]:
    found = report.incidents
    for incident in found[:_INCIDENTS]:
        possible = "" if incident.certain else "possible: "
        unsure = "" if incident.reliable else " (not reliable)"
        is_bad = incident.kind == LOST and incident.certain
        yield _Line(
            possible + printable(incident.sentence, _SENTENCE) + unsure, 2, "bad" if is_bad else "maybe"
        )
        for known in incident.defects:
            near = f"; see also {', '.join(known.upstream)}" if known.upstream else ""
            yield _Line(f"known defect: {known.title} docs/{known.page}#{known.anchor}{near}", 4)
        if incident.to_do:
            yield _Line(f"to do: {incident.to_do}", 4)
    if len(found) > _INCIDENTS:
        yield _Line(
            f"and {len(found) - _INCIDENTS:,} more incidents; --json and --html have them", 2, "quiet"
        )


def _findings(report: Report) -> Iterator[_Line]:
    """The first finding of each property, and how many there are."""
    found = groups(report)
    if not found:
        return
    yield _Line("findings", kind="head")
    short = apart(str(g.first.position["file"]) for g in found if "file" in g.first.position)
    for group in found[:_RULES]:
        first = group.first
        yield _Line(_named(group), 2, "bad" if group.certain else "maybe")
        place = [printable(first.partition, _NAME)] if first.partition is not None else []
        yield _Line(", ".join([*place, _position(first.position, short), utc(first.time)]), 4)
        yield from (_Line(text, 4) for text in _about(group))
    if len(found) > _RULES:
        more = _more(max(g.count for g in found))
        yield _Line(f"and {len(found) - _RULES} more properties; {more}", 2, "quiet")
    elif sum(g.count for g in found) > len(found):
        yield _Line(f"the first of each property; {_more(max(g.count for g in found))}", 2, "quiet")


def _named(group: PropertyGroup) -> str:
    said = f"{printable(group.rule, 20)} {printable(group.property, 60)}{_restrictions(group)}"
    said += f" ({printable(group.kip, 40)})" if group.kip else ""
    return said + (f": {group.count:,}, the first" if group.count > 1 else "")


def _head(report: Report) -> Iterator[_Line]:
    """The verdict, and what it does not rest on."""
    yield _Line(f"{printable(report.input)}: {verdict(report)}", kind="verdict")
    yield from (_Line(f"DAMAGED: {printable(text, 400)}", 2, "bad") for text in map(_damage, report.damage))
    for text in _few([_doubt(doubt) for doubt in report.doubts], _DOUBTS, "more things that are not known"):
        yield _Line(f"NOT SURE: {text}", 2, "bad")


def _rest(report: Report) -> Iterator[_Line]:
    """What was read, with which rules, what was left out, and what it took."""
    counted = ((report.operations, "operation"), (report.records, "record"), (report.partitions, "partition"))
    counts = [_count(number, one) for number, one in (*counted, (report.changes, "change")) if number]
    read = report.records or report.operations
    if report.seconds > 0:
        unit = "records" if report.records else "operations"
        counts.append(f"{report.seconds:.1f} s, {read / report.seconds:,.0f} {unit} a second")
    yield _Line(
        f"{printable(report.kind)}, {printable(report.profile)}: {', '.join(counts) or 'nothing was read'}", 2
    )
    figures = {name: value for name, value in report.figures.items() if not name.startswith(_MESSAGES)}
    if "request log lines" in figures:
        said = [f"{figures.pop('request log lines'):,} lines of request logs"]
        said += [figure(f"{_MESSAGES}{kind}", report.figures[f"{_MESSAGES}{kind}"]) for kind in _KINDS]
        yield _Line(f"{', '.join(said)}; --json has them by action", 2)
    if figures:
        said = [figure(name, value) for name, value in sorted(figures.items(), key=_interest)]
        yield _Line(", ".join(_few(said, _FIGURES)), 2)
    for note in _few([printable(n) for n in report.notes], _NOTES, "more notes"):
        yield _Line(f"note: {note}", 2, "note")
    if report.skipped:
        most = sorted(report.skipped.items(), key=lambda item: (-item[1], item[0]))
        said = [f"{printable(name, 60)} {count:,}" for name, count in most]
        yield _Line(f"not modelled, skipped: {', '.join(_few(said, _SKIPPED, 'more types'))}", 2, "quiet")


def _damage(damage: Damage) -> str:
    """What cannot be read, and what is lost with it."""
    lost = [] if damage.bytes_lost is None else [_count(damage.bytes_lost, "byte") + " of the file"]
    lost += [_count(damage.segments_lost, "segment") + " behind it"] if damage.segments_lost else []
    said = f" ({' and '.join(lost)})" if lost else ""
    if damage.position.keys() == {"file"} and not said:
        return damage.message
    return f"{damage.message}; not replayed: everything from offset {damage.offset} on{said}"


def _doubt(doubt: Doubt) -> str:
    """What is not known, from where on, and about which partitions."""
    said = printable(doubt.summary, 300)
    if doubt.partitions is not None:
        if not doubt.partitions:
            return said
        names = [printable(name, 80) for name in doubt.partitions]
        whom = ", ".join(_few(names, _PARTITIONS, "more partitions"))
    else:
        whom = "any partition"
    return f"{said}. What is said of {whom} from {_position(doubt.position)} on is not reliable"


def _unexplained(report: Report) -> Iterator[_Line]:
    """The first line that nothing explains, in full, and how many more there are."""
    if not report.unexplained:
        return
    first = report.unexplained[0]
    of = (
        f"first of {report.unexplained_count:,} not explained"
        if report.unexplained_count > 1
        else "not explained"
    )
    place = [_position(first.position), utc(first.time)]
    place += [printable(first.partition)] if first.partition is not None else []
    yield _Line(of, kind="head")
    yield _Line(", ".join(place), 2, "bad")
    yield from _details(first)
    if report.unexplained_count > 1:
        yield _Line(
            f"and {report.unexplained_count - 1:,} more that are not explained; {_more(report.unexplained_count)}",
            2,
            "quiet",
        )


def _details(line: Unexplained) -> Iterator[_Line]:
    before = list(_states(line.before))
    if before:
        yield _Line("before:", 2)
        told = [
            f"{printable(path)}: {printable(_value(value), _STATE_WIDTH)}" for path, value in before[:_STATES]
        ]
        yield from (_Line(text, 4) for text in _few(told, _STATES, "more states", len(before)))
    if not line.candidates:
        yield _Line("no action of the model comes near", 2)
    for candidate in line.candidates[:_CANDIDATES]:
        yield from _candidate(candidate)
    if len(line.candidates) > _CANDIDATES:
        yield _Line(f"and {len(line.candidates) - _CANDIDATES} more actions that come near", 2, "quiet")


def _candidate(candidate: Candidate) -> Iterator[_Line]:
    parameters = ", ".join(
        f"{printable(k, 40)}={printable(_value(v), 60)}" for k, v in candidate.parameters.items()
    )
    yield _Line(f"nearest: {printable(candidate.action)}({printable(parameters, _WIDTH)})", 2)
    for name in _few([printable(n) for n in candidate.refused_by], _CHECKS, "more checks"):
        yield _Line(f"refused by: {name}", 4)
    differing = [
        f"{printable(path)}: the model says {printable(_value(model), _WIDTH)}, "
        f"recorded is {printable(_value(recorded), _WIDTH)}"
        for path, (model, recorded) in islice(candidate.differences.items(), _DIFFERENCES)
    ]
    told = _few(differing, _DIFFERENCES, "more fields", len(candidate.differences))
    yield from (_Line(text, 4) for text in told)


def _restrictions(group: PropertyGroup) -> str:
    said = [] if group.certain else ["possible"]
    said += [] if group.reliable else ["not reliable"]
    return f" ({', '.join(said)})" if said else ""


def _about(group: PropertyGroup) -> Iterator[str]:
    if group.first.summary:
        yield printable(group.first.summary, _SENTENCE)
    if group.first.at_risk:
        yield f"at risk: {printable(group.first.at_risk, _SENTENCE)}"


def _more(count: int) -> str:
    return f"--json and --html have {'them all' if count <= LIMIT else f'the first {LIMIT}'}"


def _position(position: Mapping[str, Any], short: Mapping[str, str] | None = None) -> str:
    """A place in the input; ``short`` has shorter names of files."""
    said = []
    for name, value in position.items():
        shown = (short or {}).get(value, value) if isinstance(value, str) else value
        said.append(f"{printable(name, 40)} {shown if isinstance(shown, int) else printable(shown)}")
    return ", ".join(said)


def _states(state: Mapping[str, Any], path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The states of partitions and brokers, each as a whole, by their path."""
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
    """The first ones, and how many more there are."""
    rest = (len(texts) if count is None else count) - limit
    return [*texts[:limit], f"and {rest} {what}"] if rest > 0 else list(texts)


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _natural(rule: str) -> tuple[tuple[int, str], ...]:
    """A key that sorts 966.4 before 966.12."""
    parts = re.findall(r"[0-9]{1,9}|[^0-9]+", rule)
    return tuple((int(p), "") if p.isdecimal() else (10**10, p) for p in parts)
