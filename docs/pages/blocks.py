"""Computed blocks of a page: what stands between ``<!-- computed: NAME … -->`` and ``<!-- end -->``.

All else of a page is written by hand, in the page. A block is lines of its own, or, where its first mark does not end
the line, a part of one: that mark may not be the first on its line, as Markdown would take the rest of it for HTML.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

Block = Callable[..., str | Iterable[str]]
"""What computes a block: from the words behind its name in the mark to a text, or to its lines."""

_BLOCK = re.compile(r"(<!-- computed: ([^\n]+?) -->)(\n?)(.*?)(<!-- end -->)", re.S)
_MARKS = re.compile(r"<!-- (?:computed\b|end\b)")


def filled(text: str, blocks: Mapping[str, Block]) -> str:
    """A page with each block computed anew; ValueError where marks do not pair, or name no block."""

    def computed(found: re.Match[str]) -> str:
        start, asked, line, _, end = found.groups()
        name, *words = asked.split()
        if name not in blocks:
            raise ValueError(f"there is no block {name}: {', '.join(blocks)}")
        if not line and f"\n{found.string}"[: found.start() + 1].endswith("\n"):
            raise ValueError(f"the block {asked} begins a line and is only a part of it")
        said = blocks[name](*words)
        return f"{start}{line}{said if isinstance(said, str) else _joined(said)}{line}{end}"

    inside = any(_MARKS.search(before) for *_, before, _ in _BLOCK.findall(text))
    if inside or len(_MARKS.findall(text)) != 2 * len(_BLOCK.findall(text)):
        raise ValueError("the marks of blocks do not pair")
    return _BLOCK.sub(computed, text)


def _joined(lines: Iterable[str]) -> str:
    return "\n".join(lines).strip("\n")


def asked_for(text: str, name: str) -> list[str]:
    """The words behind the marks of all blocks of a name, in the order of the page."""
    found = (asked.partition(" ") for _, asked, *_ in _BLOCK.findall(text))
    return [words for called, _, words in found if called == name]


def table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """The lines of a table. A column whose title ends in a colon has its cells at the right."""
    columns = list(columns)
    yield row(title.rstrip(":") for title in columns)
    yield row("---:" if title.endswith(":") else "---" for title in columns)
    yield from map(row, rows)


def row(cells: Iterable[object]) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def code(texts: Iterable[str]) -> str:
    """Texts as code, one below the other within a cell."""
    return "<br/>".join(f"`{text}`" for text in texts)
