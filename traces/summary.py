"""A replay's result for people: what matters first, and never more than a screenful of it.

The same parts are said in two ways: as plain lines for pipes and files, and with `rich` for terminals. Whatever
comes from the input passes through ``printable``, so that no input can command a terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from highwater.traces.errors import printable
from highwater.traces.report import LIMIT, Candidate, Damage, Doubt, Finding, Report, Unexplained

if TYPE_CHECKING:
    from rich.console import RenderableType

_RULES, _STATES, _CANDIDATES, _CHECKS, _DIFFERENCES, _SKIPPED, _NOTES, _FIGURES = 6, 4, 2, 2, 3, 6, 2, 8
_DOUBTS, _PARTITIONS = 4, 3
"""So many of each are said; of the rest it is said how many there are."""
_WIDTH, _STATE_WIDTH = 160, 600
"""A value, and a whole state, are cut after so many characters."""
_DEEP = 20
"""A value that is nested deeper is cut there."""
_HEADS = ("rule", "property", "count", "KIP", "first")
_NUMBERS = frozenset({2})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ACRONYMS = {"isr": "ISR", "elr": "ELR", "hwm": "HWM"}
_DURATION_WORDS = frozenset({"ms", "milliseconds"})


@dataclass(frozen=True)
class Group:
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
    """A line, how far it is indented, and what it is: ``head``, ``bad``, ``note`` or nothing special."""

    text: str
    indent: int = 0
    kind: str = ""


def utc(time: int | None) -> str:
    """A time in ms since the epoch as UTC; as a number where the calendar has no such time."""
    if time is None or time < 0:
        return "no time"
    try:
        moment = _EPOCH + timedelta(milliseconds=time)
    except OverflowError:
        return f"time {time}"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d} UTC"


def duration(milliseconds: int) -> str:
    """A duration as h:mm:ss; one below a second in ms."""
    if 0 <= milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds // 1000
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def figure(name: str, value: int) -> str:
    """A total with its name. Where ``ms`` is a word of the name, the value is a duration."""
    words = [_ACRONYMS.get(word, word) for word in name.replace("_", " ").split()]
    if _is_duration(name):
        return f"{printable(' '.join(w for w in words if w not in _DURATION_WORDS))} {duration(value)}"
    return f"{printable(' '.join(words))} {value:,}"


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


def groups(report: Report) -> list[Group]:
    """Findings by property, in the order of the catalogue of rules."""
    by_property: dict[str, list[Finding]] = {}
    for found in report.findings:
        by_property.setdefault(found.property, []).append(found)
    made = [
        Group(
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
    lines = [*_head(report), *_unexplained(report)]
    said = [" " * line.indent + line.text for line in lines]
    found = groups(report)
    if found:
        said.append("findings")
        rows = [_HEADS, *(_row(g) for g in found[:_RULES])]
        widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADS))]
        for row, group in zip(rows, [None, *found[:_RULES]], strict=True):
            cells = (
                f"{c:>{w}}" if i in _NUMBERS else f"{c:<{w}}"
                for i, (c, w) in enumerate(zip(row, widths, strict=True))
            )
            said.append("  " + "  ".join(cells).rstrip())
            if group is not None:
                said += [f"    {line}" for line in _about(group)]
        said += [f"  {line}" for line in _rest(found)]
    return said


def rich_summary(report: Report) -> RenderableType:
    """What was found in one input, for a terminal: the same parts as ``summary``."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Group as Stack
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    bad = "green" if report.explained else "bold red"
    styles = {"head": "bold", "verdict": bad, "bad": "red", "note": "yellow", "quiet": "dim"}
    shown: list[RenderableType] = [
        Padding(Text(line.text, styles.get(line.kind, "")), (0, 0, 0, line.indent))
        for line in [*_head(report), *_unexplained(report)]
    ]
    found = groups(report)
    if found:
        table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        for i, head in enumerate((*_HEADS[:-1], "first, and what was at risk")):
            table.add_column(head, justify="right" if i in _NUMBERS else "left", overflow="fold")
        for group in found[:_RULES]:
            *cells, first = _row(group)
            last = Text("\n".join([first, *_about(group)]))
            colour = "red" if group.certain else "yellow"
            table.add_row(Text(cells[0], colour), Text(cells[1], colour), *map(Text, cells[2:]), last)
        shown += [Text("findings", "bold"), table, *(Text(line, "dim") for line in _rest(found))]
    return Stack(*shown)


def _head(report: Report) -> Iterator[_Line]:
    """What was read, with which rules, and what was left out."""
    yield _Line(f"{printable(report.input)}: {verdict(report)}", kind="verdict")
    yield from (_Line(f"DAMAGED: {printable(text, 400)}", 2, "bad") for text in map(_damage, report.damage))
    for text in _few([_doubt(doubt) for doubt in report.doubts], _DOUBTS, "more things that are not known"):
        yield _Line(f"NOT SURE: {text}", 2, "bad")
    counted = ((report.operations, "operation"), (report.records, "record"), (report.partitions, "partition"))
    counts = [_count(number, one) for number, one in (*counted, (report.changes, "change")) if number]
    read = report.records or report.operations
    if report.seconds > 0:
        unit = "records" if report.records else "operations"
        counts.append(f"{report.seconds:.1f} s, {read / report.seconds:,.0f} {unit} a second")
    yield _Line(
        f"{printable(report.kind)}, {printable(report.profile)}: {', '.join(counts) or 'nothing was read'}", 2
    )
    if report.figures:
        durations_first = sorted(report.figures.items(), key=lambda item: not _is_duration(item[0]))
        said = [figure(name, value) for name, value in durations_first]
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


def _row(group: Group) -> tuple[str, ...]:
    first = group.first
    place = ([printable(first.partition, 80)] if first.partition is not None else []) + [
        _position(first.position)
    ]
    return (
        printable(group.rule, 20),
        printable(group.property, 60) + _restrictions(group),
        f"{group.count:,}",
        printable(group.kip, 40),
        ", ".join([*place, utc(first.time)]),
    )


def _restrictions(group: Group) -> str:
    said = [] if group.certain else ["possible"]
    said += [] if group.reliable else ["not reliable"]
    return f" ({', '.join(said)})" if said else ""


def _about(group: Group) -> Iterator[str]:
    if group.first.summary:
        yield printable(group.first.summary)
    if group.first.at_risk:
        yield f"at risk: {printable(group.first.at_risk)}"


def _rest(found: list[Group]) -> Iterator[str]:
    """What is not in the table."""
    if len(found) > _RULES:
        yield f"and {len(found) - _RULES} more properties; {_more(max(g.count for g in found))}"
    elif sum(g.count for g in found) > len(found):
        yield f"the first of each property; {_more(max(g.count for g in found))}"


def _more(count: int) -> str:
    return f"--json and --html have {'them all' if count <= LIMIT else f'the first {LIMIT}'}"


def _position(position: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{printable(name, 40)} {value if isinstance(value, int) else printable(value)}"
        for name, value in position.items()
    )


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


__all__ = ["Group", "duration", "figure", "groups", "rich_summary", "summary", "utc", "verdict"]
