"""Finds the time and the message in a line of a program's log, whatever the layout around the message.

The reader knows what it looks for: a part of the message. Before the message stand a date with a time, and anything
else, such as a level, a thread, a logger, or what ``kubectl``, ``docker compose`` or journald put before each line. A
layout may also be JSON: then the message is one of the values, and the time another one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from highwater.traces.reading import epoch_ms

_CLOCK = (
    r"(?P<hour>\d\d):?(?P<minute>\d\d):?(?P<second>\d\d)(?:[.,:]?(?P<part>\d{1,9}))?"
    r"(?P<zone>Z\b| ?UTC\b|(?: |(?<=\d))[+-]\d\d:?\d\d\b)?"
)
_FORMS = tuple(
    re.compile(rf"(?<!\d){day}[T ,:]{{0,2}}{_CLOCK}")
    for day in (
        r"(?P<year>\d{4})[-/.](?P<month>\d\d)[-/.](?P<day>\d\d)",
        r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)",
        r"(?P<day>\d\d?)[-/. ](?P<name>[A-Z][a-z]{2})[a-z]*\.?[-/. ](?P<year>\d{4})",
        r"(?P<name>[A-Z][a-z]{2})[a-z]*\.? (?P<day>\d\d?),? (?P<year>\d{4})",
        r"(?P<day>\d\d)[-/.](?P<month>\d\d)[-/.](?P<year>\d{4})",
        r"(?P<month>\d\d)[-/.](?P<day>\d\d)[-/.](?P<year>\d{4})",
    )
)
"""The forms of a date with its time. The last two cannot always be told apart."""
_DAY_FIRST, _MONTH_FIRST = _FORMS[-2:]
_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: number for number, name in enumerate(_NAMES, 1)}
_COLOURS = re.compile(rb"\x1b\[[\d;]*[A-Za-z]")
_HOUR = 3_600_000
BROKER_NUMBER = re.compile(r"(?:node|broker)[-_]?(\d{1,9})(?!\d)", re.IGNORECASE)
"""A broker's number in a name, such as node0 or broker-0."""
_MOST_DEPTH = 3
"""The most objects within each other in which a line of JSON may have its message."""


def broker_of(path: Path) -> int | None:
    """The broker's number in the name of a file or of its directories (node0, broker-0); None if there is none."""
    for name in (path.name, *(parent.name for parent in path.absolute().parents)):
        if found := BROKER_NUMBER.search(name):
            return int(found[1])
    return None


class LogLine(NamedTuple):
    """The match of a line's message, and the line's time in ms since the epoch.

    A time without a zone is read as UTC. ``time_ms`` is None if no date with a time stands before the message.
    """

    message: re.Match[str]
    time_ms: int | None


class LogLines:
    """The lines of one file. The form of the first date is tried first on the next line."""

    def __init__(self) -> None:
        self._form, self._at = _FORMS[0], 1
        self._order: re.Pattern[str] | None = None
        """The order of day and month, once a line has shown it."""
        self._latest, self._set_back = -_HOUR, 0

    def read(self, line: bytes, known: bytes, message: re.Pattern[str]) -> LogLine | None:
        """The message that fits the pattern ``message`` and has the text ``known``; None if the line has none."""
        if b"\x1b" in line:
            line = _COLOURS.sub(b"", line)
        text = line.decode("utf-8", "replace")
        if line[:1] in b"{ " and line.lstrip().startswith(b"{"):
            for found, beside in _objects(text, known.decode()):
                match = message.search(found)
                if match is not None:
                    time = self._time(found[: match.start()])
                    return LogLine(match, self._time_of(beside) if time is None else time)
        match = message.search(text)
        return None if match is None else LogLine(match, self._time(text[: match.start()]))

    def _time(self, head: str) -> int | None:
        """The last date with a time in the text before a message."""
        match = self._form.match(head, self._at)
        if match is None:
            match, latest = None, -1
            for form in _FORMS:
                for found in form.finditer(head):
                    if found.start() > latest:
                        match, latest = found, found.start()
            if match is None:
                return None
            if match.re in (_DAY_FIRST, _MONTH_FIRST):
                match = self._ordered(match, head)
                if match is None:
                    return None
            self._form, self._at = match.re, match.start()
        time = _ms(match)
        return time if time is None or match["zone"] else self._steady(time)

    def _steady(self, time: int) -> int:
        """A local time, plus the hours by which the clock has been set back since the first line (daylight saving)."""
        time += self._set_back
        if _HOUR // 4 < self._latest - time < _HOUR * 5 // 4:  # less than an hour if no line came for a while
            self._set_back += _HOUR
            time += _HOUR
        self._latest = max(self._latest, time)
        return time

    def _ordered(self, match: re.Match[str], head: str) -> re.Match[str] | None:
        """The match with the order of day and month; None as long as no line has shown the order."""
        first, second = int(match[1]), int(match[2])
        if max(first, second) > 12:
            self._order = _DAY_FIRST if first > 12 else _MONTH_FIRST
        return None if self._order is None else self._order.match(head, match.start())

    def _time_of(self, beside: dict[str, object]) -> int | None:
        """The time among the values that stand beside a message in a JSON object."""
        for value in beside.values():
            if isinstance(value, str) and len(value) < 50 and (time := self._time(value)) is not None:
                return time
            if isinstance(value, dict) and isinstance(seconds := value.get("epochSecond"), int):
                nanos = value.get("nanoOfSecond", 0)
                return seconds * 1000 + (nanos // 1_000_000 if isinstance(nanos, int) else 0)
            if isinstance(value, int) and 10**12 < value < 10**13:
                return value
        return None


def _objects(text: str, known: str) -> Iterator[tuple[str, dict[str, object]]]:
    """The strings with the text ``known`` in a JSON object, each with the outermost object."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return
    waiting = [(whole, 0)]
    while waiting:
        value, depth = waiting.pop()
        if isinstance(value, dict) and depth < _MOST_DEPTH:
            waiting += [(inner, depth + 1) for inner in value.values()]
        elif isinstance(value, str) and known in value:
            yield value, whole


def _ms(match: re.Match[str]) -> int | None:
    """The time of a match of one of the forms, in ms since the epoch; None if there is no such time."""
    parts = match.groupdict()
    month = _MONTHS.get(parts["name"]) if "name" in parts else int(parts["month"])
    if month is None:
        return None
    year, day, hour, minute, second = (int(parts[n]) for n in ("year", "day", "hour", "minute", "second"))
    time = epoch_ms(year, month, day, hour, minute, second, int((parts["part"] or "0").ljust(3, "0")[:3]))
    zone, ahead = (parts["zone"] or "").replace(":", "").strip(), 0
    if zone[:1] in ("+", "-"):
        ahead = (int(zone[1:3]) * 60 + int(zone[3:5])) * (60_000 if zone[0] == "+" else -60_000)
    return None if time is None else time - ahead
