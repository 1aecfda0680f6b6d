"""Texts for people: times and durations, paths in few words, and lines folded to a terminal's width."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KEPT = 2
"""The number of parts at the end of a path that are always shown: a broker's directory and the file."""
WIDEST = 120
"""The most columns used, as longer lines are hard to read on a wide terminal."""
_LEAST = 20
"""The least columns for a text, however long the head before it is."""


def brokers(members: Iterable[int]) -> str:
    """Brokers by their ids, each once: ``broker 1``, or ``brokers 1 and 2``."""
    *rest, last = map(str, dict.fromkeys(members))
    return f"brokers {', '.join(rest)} and {last}" if rest else f"broker {last}"


def count(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def offsets(first: int, end: int) -> str:
    """A range of offsets as text, with the last one included; ``end`` is the offset after it."""
    return str(first) if end == first + 1 else f"{first}–{end - 1}"


def records(first: int, end: int) -> str:
    """The committed records in a range of offsets as text: their number and their offsets."""
    return f"{count(end - first, 'committed record')} (offset{'s' * (end > first + 1)} {offsets(first, end)})"


def moment(time: int | None) -> str:
    """A time in ms since the epoch as UTC, to the second."""
    said = utc(time)
    return f"{said[:19]} UTC" if said.endswith(" UTC") else said


def span(milliseconds: int) -> str:
    """A duration in words, in its two largest units at most."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = round(milliseconds / 1000)
    for unit, name, less, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= unit:
            rest = seconds % unit // less
            return f"{seconds // unit} {name}" + (f" {rest} {small}" if rest else "")
    return f"{seconds} s"


def utc(time: int | None) -> str:
    """A time in ms since the epoch as UTC, or as a number if the calendar has no such time."""
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
    """Each path without the leading directories that all paths share.

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
    """A text after a head, wrapped to a width; further lines begin with ``indent``, or else with the head.

    Lines break between words only, never inside a name. Without a width, the text stays one line.
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


class Folded:
    """Lines of text with their indents and styles. Continuation lines have two more columns of indent."""

    def __init__(self, lines: Sequence[tuple[str, int, str]]) -> None:
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines, wrapped to the terminal's width."""
        from rich.text import Text

        width = min(options.max_width, WIDEST)
        for text, indent, style in self._lines:
            for line in fold(text, " " * indent, width, " " * (indent + 2)) or [""]:
                yield Text(line, style, no_wrap=True, overflow="ignore", end="\n")
