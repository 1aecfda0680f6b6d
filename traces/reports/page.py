"""The self-contained HTML page of a replay. Its data is encoded, so that no input can add HTML or a request."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from highwater.model.language.rulebook import Rulebook, numbers
from highwater.model.rulebook import RULEBOOK
from highwater.traces.reports.observed import (
    HWM,
    LEO,
    Course,
    PartitionChange,
    PartitionState,
    SettingInForce,
)
from highwater.traces.reports.report import (
    LIMIT_CHANGES,
    Report,
    Timeline,
    headline,
    in_all,
    summary,
    who_has,
)

_EXACT = 2**53
"""Whole numbers from this one on are written as text, because browsers do not represent them exactly."""
_DEEP = 40
"""Lists and objects nested deeper than this are written as "…"."""


def as_json(value: Any) -> str:
    """A value as JSON that is safe in a script element: ``<``, ``>``, ``&`` and non-ASCII characters are escaped."""
    text = json.dumps(_plain(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _plain(value: Any, depth: int = 0) -> Any:
    """Any value as plain data for JSON; a number that a browser would not read exactly becomes text."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if -_EXACT < value < _EXACT else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth > _DEEP:
        return "…"
    if isinstance(value, Mapping):
        return {str(name): _plain(item, depth + 1) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item, depth + 1) for item in value), key=str)
    return str(value)


def policy(page: str, *, asks: bool = False) -> str:
    """The content security policy of a page: it allows only the page's style and its script, if any, by their hashes.

    With ``asks`` the page may send requests to its own server.
    """
    style = _hash(_between(page, "<style>", "</style>"))
    script = _hash(_between(page, "<script>", "</script>")) if "<script>" in page else "'none'"
    connect = "connect-src 'self'; " if asks else ""
    return f"default-src 'none'; {connect}style-src {style}; script-src {script}; base-uri 'none'; form-action 'none'"


def signs() -> str:
    """The CSS that all pages share: colours, and the symbols of leader, ISR, ELR and other states."""
    return Path(__file__).with_name("signs.css").read_text(encoding="utf-8")


def told_rules(book: Rulebook, named: Collection[str]) -> dict[str, Any]:
    """The rules with these numbers as page data, by number. Numbers that are not in the rulebook are left out."""
    return {
        number: {
            "title": rule.title,
            "states": rule.states,
            "why": rule.why,
            "beyond": rule.beyond,
            "section": rule.section,
            "from": [[p.name, p.title, p.link] for p in book.proposals(number)],
        }
        for number, rule in book.items()
        if number in named
    }


def _between(text: str, start: str, end: str) -> str:
    return text.split(start, 1)[1].split(end, 1)[0]


def _hash(text: str) -> str:
    """The SHA-256 source by which a content security policy allows a text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


# The page of a replay: ``page.html`` with the data in it as JSON. It needs no network. The script only sets text from
# the data; the page's policy (CSP) allows this script by its hash, and no request.
#
# The data is ``{"limit", "in_all", "rules", "reports": [{"report", "meanings", "timelines", "causes",
# "members"}]}``. Changes are short, because there can be 100,000:
#
# - report: ``Report.to_json`` without the facts of findings, with ``headline`` and ``in_all``.
# - timeline: ``[partition, total, changes]``, followed by ``settings, courses`` if any of them has entries.
# - change: ``[position, time, cause, min_isr, unclean, before, after]``. ``cause`` is an index into ``causes``, -1 if
#   no action explains the change; ``min_isr`` and ``unclean`` are -1 if unknown; ``before`` is 1 if it equals the
#   ``after`` of the previous change.
# - state: 0 for none, or ``[replicas, isr, elr, last known elr, leader, leader epoch, partition epoch]``, followed by
#   ``[recovery state, adding, removing]`` if they are unusual. Lists of members are indices into ``members``.
# - setting: ``[position, time, name, level, resource, before, value, min_isr, unclean]``.
# - course: ``[broker, 0 for HWM or 1 for LEO, [time, offset, …]]`` as differences to the previous point; offset -1 is
#   unknown.

_TEMPLATE = Path(__file__).with_name("page.html")
_SUMMARIES = 20
"""The most inputs that the page summarizes for browsers without scripts."""
_USUAL = ("RECOVERED", (), ())

State = list[Any] | int


def write_page(reports: Sequence[Report], file: Path, meanings: Mapping[str, str] | None = None) -> None:
    """Write one HTML file that shows all the reports. Raises OSError if the file cannot be written.

    ``meanings`` has a sentence about each property, by the property's name. The default is ``known_meanings()``.
    """
    before, after = _template(reports)
    with file.open("w", encoding="utf-8", newline="\n") as page:
        page.write(before)
        for piece in data(reports, known_meanings() if meanings is None else meanings):
            page.write(piece)
        page.write(after)


def known_meanings() -> dict[str, str]:
    """A sentence about each property of the catalogue, by the property's name."""
    from highwater.invariants.catalogue import catalogue

    return {name: known.meaning for name, known in catalogue().items()}


def data(reports: Sequence[Report], meanings: Mapping[str, str]) -> Iterator[str]:
    """Yield the page's data as pieces of JSON: ASCII, without characters that HTML interprets."""
    yield f'{{"limit":{LIMIT_CHANGES},"in_all":{as_json(in_all(reports, rate=False))},'
    yield f'"rules":{as_json(_named_rules(reports))},"reports":['
    for i, report in enumerate(reports):
        compact = _Compact()
        yield ",\n" if i else "\n"
        yield f'{{"report":{as_json(_report(report))},"meanings":{as_json(_needed(report, meanings))},"timelines":['
        for j, timeline in enumerate(report.timelines.values()):
            yield ",\n" if j else "\n"
            yield as_json(compact.timeline(timeline))
        members = as_json([list(m) for m in compact.members])
        yield f'],"causes":{as_json(list(compact.causes))},"members":{members}}}'
    yield "]}"


class _Compact:
    """Turns timelines into short lists, with indices into ``causes`` and ``members``."""

    def __init__(self) -> None:
        self.causes: dict[str, int] = {}
        self.members: dict[tuple[int, ...], int] = {}

    def timeline(self, timeline: Timeline) -> list[Any]:
        changes, last = [], None
        for i, change in enumerate(timeline.changes):
            changes.append(self.change(change, follows=i > 0 and change.before == last))
            last = change.after
        more = [[_setting(s) for s in timeline.settings], [_course(c) for c in timeline.courses]]
        return [timeline.partition, timeline.total, changes, *(more if any(more) else ())]

    def change(self, change: PartitionChange, follows: bool) -> list[Any]:
        return [
            change.position,
            change.time,
            -1 if change.cause is None else self.causes.setdefault(change.cause, len(self.causes)),
            -1 if change.min_isr is None else change.min_isr,
            -1 if change.unclean_election is None else int(change.unclean_election),
            1 if follows else self.state(change.before),
            self.state(change.after),
        ]

    def state(self, state: PartitionState | None) -> State:
        if state is None:
            return 0
        short: list[Any] = [
            self._members(state.replicas),
            self._members(state.isr),
            self._members(state.elr),
            self._members(state.last_known_elr),
            -1 if state.leader is None else state.leader,
            state.leader_epoch,
            state.partition_epoch,
        ]
        if (state.leader_recovery_state, state.adding, state.removing) != _USUAL:
            short += [state.leader_recovery_state, self._members(state.adding), self._members(state.removing)]
        return short

    def _members(self, members: tuple[int, ...]) -> int:
        return self.members.setdefault(members, len(self.members))


def _report(report: Report) -> dict[str, Any]:
    """A report as page data: its JSON without the facts of findings, and its headlines as text."""
    written_report = report.to_json()
    for found in written_report["findings"]:
        del found["facts"]
    for written, incident in zip(written_report["incidents"], report.incidents, strict=True):
        written |= {"label": incident.label, "who_has": who_has(incident.holders) if incident.holders else ""}
    return {**written_report, "headline": headline(report), "in_all": in_all([report], rate=False)}


def _setting(setting: SettingInForce) -> list[Any]:
    change, unclean = setting.change, setting.unclean_election
    return [
        change.position, change.time, change.name, change.level, change.resource, change.before, change.value,
        -1 if setting.min_isr is None else setting.min_isr, -1 if unclean is None else int(unclean),
    ]  # fmt: skip


def _course(course: Course) -> list[Any]:
    points = [(0, 0), *course.points]
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(points)]
    return [course.broker, (HWM, LEO).index(course.kind), [n for step in steps for n in step]]


def _needed(report: Report, meanings: Mapping[str, str]) -> dict[str, str]:
    return {
        name: meanings[name] for name in sorted({f.property for f in report.findings}) if name in meanings
    }


def _named_rules(reports: Sequence[Report]) -> dict[str, Any]:
    """The rules of proposals that the findings violate, as page data by rule number."""
    named = {n for report in reports for f in report.findings if f.kip for n in numbers(f.rule)}
    return told_rules(RULEBOOK, named)


def _template(reports: Sequence[Report]) -> tuple[str, str]:
    text = _TEMPLATE.read_text(encoding="utf-8").replace("{{signs}}", signs(), 1)
    summaries = "\n".join(line for report in reports[:_SUMMARIES] for line in [*summary(report), ""])
    text = text.replace("{{policy}}", policy(text), 1).replace(
        "{{summary}}", html.escape(summaries, quote=True), 1
    )
    before, _, after = text.rpartition("{{data}}")
    return before, after
