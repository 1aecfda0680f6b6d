"""Lines of text folded to a terminal's width, between words only: nothing breaks inside a name."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

WIDEST = 120
"""Columns that a reader's eye can follow, however wide the terminal is."""


class Folded:
    """Lines of text with their indents and styles. Lines that follow in a folded one stand two columns further in."""

    def __init__(self, lines: Sequence[tuple[str, int, str]]) -> None:
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines at the width that there is."""
        width = min(options.max_width, WIDEST)
        for text, indent, style in self._lines:
            head = " " * indent
            folded = textwrap.wrap(
                text, max(width, indent + 24), initial_indent=head, subsequent_indent=head + "  ",
                break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip
            for line in folded or [""]:
                yield Text(line, style, no_wrap=True, overflow="ignore", end="\n")


__all__ = ["WIDEST", "Folded"]
