"""Numbers, offsets, times and durations as text, short paths, and lines wrapped to a terminal's width."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import PurePath

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KEPT = 2
"""The number of parts at the end of a path that are always shown: a broker's directory and the file."""
WIDEST = 120
"""The most columns used, as longer lines are hard to read on a wide terminal."""
_LEAST = 20
"""The least columns for the text after ``head`` in ``fold``; a long ``head`` widens the line."""


EXACT, AT_LEAST, AT_MOST = "exact", "at_least", "at_most"
"""The standings of a number of records: the lines of the input give the number, or only a bound of it."""
_MOST_NAMED = 12
"""The most brokers that a sentence lists by their ids."""
BOUNDS = {EXACT: "", AT_LEAST: "at least ", AT_MOST: "up to "}
"""The words before a number of records, by its standing."""


def brokers(members: Iterable[int]) -> str:
    """Brokers by their ids, each once: ``broker 1``, ``brokers 1 and 2``, or ``no broker``."""
    named = list(map(str, dict.fromkeys(members)))
    if len(named) < 2:
        return f"broker {named[0]}" if named else "no broker"
    if len(named) > _MOST_NAMED:
        named[_MOST_NAMED - 1 :] = [f"{len(named) - _MOST_NAMED + 1} more"]
    return f"brokers {', '.join(named[:-1])} and {named[-1]}"


def count(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun: ``1 record``, ``2 records``. ``many`` is an irregular plural."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def offsets(first: int, end: int) -> str:
    """The offsets from ``first`` to ``end`` - 1 as text: ``5``, or ``5–9``."""
    return str(first) if end == first + 1 else f"{first}–{end - 1}"


def records(first: int, end: int) -> str:
    """The committed records from ``first`` to ``end`` - 1 as text: ``2 committed records (offsets 5–6)``."""
    return f"{count(end - first, 'committed record')} (offset{'s' * (end > first + 1)} {offsets(first, end)})"


def moment(time: int | None) -> str:
    """A time (ms since the epoch) as in ``utc``, but without ms."""
    shown = utc(time)
    return f"{shown[:19]} UTC" if shown.endswith(" UTC") else shown


def span(milliseconds: int) -> str:
    """A duration as text in its largest one or two units: ``2 h 5 min``."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = round(milliseconds / 1000)
    for unit, name, less, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= unit:
            rest = seconds % unit // less
            return f"{seconds // unit} {name}" + (f" {rest} {small}" if rest else "")
    return f"{seconds} s"


def utc(time: int | None) -> str:
    """A time (ms since the epoch) as UTC text with ms; ``no time`` if it is None or negative.

    If the calendar has no such time, the text has the number.
    """
    if time is None or time < 0:
        return "no time"
    try:
        moment = _EPOCH + timedelta(milliseconds=time)
    except OverflowError:
        return f"time {time}"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d} UTC"


def duration(milliseconds: int) -> str:
    """A duration as h:mm:ss, or in ms if it is shorter than a second."""
    if 0 <= milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds // 1000
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def apart(paths: Iterable[str]) -> dict[str, str]:
    """Map each path to a short form without the leading directories that all paths share.

    At least the last KEPT parts of each path remain.
    """
    parts = {path: PurePath(path).parts for path in paths}
    shared = 0
    for at in zip(*parts.values(), strict=False):
        if len(set(at)) > 1:
            break
        shared += 1
    return {path: "/".join(p[max(0, min(shared, len(p) - KEPT)) :]).lstrip("/") for path, p in parts.items()}


def fold(text: str, head: str, width: int | None, indent: str | None = None) -> list[str]:
    """Wrap ``head`` + ``text`` to a width. Further lines begin with ``indent``, or with ``head`` if ``indent`` is None.

    Lines break only between words. If ``width`` is None, the result is one line.
    """
    if width is None:
        return [head + text]
    return textwrap.wrap(
        text,
        max(width, len(head) + _LEAST),
        initial_indent=head,
        subsequent_indent=head if indent is None else indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
