"""Lines of text folded to a terminal's width, between words only: nothing breaks inside a name."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

WIDEST = 120
"""Columns that a reader's eye can follow, however wide the terminal is."""
_LEAST = 20
"""Columns that a text is given at least, whatever stands before it."""


def fold(text: str, head: str, width: int | None, indent: str | None = None) -> list[str]:
    """A text after a head, in lines of a width: those that follow are indented as said, or as the head.

    Without a width it is one line.
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
    """Lines of text with their indents and styles. Lines that follow in a folded one stand two columns further in."""

    def __init__(self, lines: Sequence[tuple[str, int, str]]) -> None:
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines at the width that there is."""
        from rich.text import Text

        width = min(options.max_width, WIDEST)
        for text, indent, style in self._lines:
            for line in fold(text, " " * indent, width, " " * (indent + 2)) or [""]:
                yield Text(line, style, no_wrap=True, overflow="ignore", end="\n")


__all__ = ["WIDEST", "Folded", "fold"]
