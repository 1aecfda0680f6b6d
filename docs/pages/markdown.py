"""Parts of generated Markdown pages: templates, tables, links from rule numbers, runs, lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from highwater.checker.base.text import change
from highwater.checker.report.counterexample import Counterexample
from highwater.checker.report.page.chart import tells
from highwater.model.language.drawing import Drawing
from highwater.model.language.liveness import Liveness
from highwater.model.language.protocol import Invariant, Protocol, Rule
from highwater.model.rulebook import RULEBOOK

Block = Callable[..., str | Iterable[str]]
"""A function that computes a block, as a text or lines. Its arguments are the words after the name in a mark."""

FOLDER = Path(__file__).parent
"""The folder of the templates: a page's prose, with marks for its blocks."""

DOCS = FOLDER.parent


NOTE = (
    "> A template: `make docs` fills in its blocks `{{ … }}` and adds the page to the site "
    "([how](../README.md)).\n\n"
)
"""The second paragraph of a template, for readers of a checkout. The site leaves it out."""


def template(name: str) -> str:
    """The template of a page, with links as from the folder ``docs``."""
    return (FOLDER / name).read_text(encoding="utf-8").replace(NOTE, "").replace("](../", "](")


_MARK = re.compile(r"\{\{ ([^{}\n]+) \}\}")


def filled(text: str, blocks: Mapping[str, Block]) -> str:
    """A template with each mark ``{{ NAME WORD… }}`` replaced; raises ValueError if a mark names no block."""

    def computed(found: re.Match[str]) -> str:
        name, *words = found[1].split()
        if name not in blocks:
            raise ValueError(f"there is no block {name}: {', '.join(blocks)}")
        said = blocks[name](*words)
        return said if isinstance(said, str) else "\n".join(said).strip("\n")

    return _MARK.sub(computed, text)


def asked_for(text: str, name: str) -> list[str]:
    """The words after the block's name in each mark with this name, in the order of the page."""
    found = (mark.partition(" ") for mark in _MARK.findall(text))
    return [words for called, _, words in found if called == name]


def table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """The lines of a table. A column whose title ends in a colon is aligned to the right."""
    columns = list(columns)
    yield row(title.rstrip(":") for title in columns)
    yield row("---:" if title.endswith(":") else "---" for title in columns)
    yield from map(row, rows)


def row(cells: Iterable[object]) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def code(texts: Iterable[str]) -> str:
    """Texts as code, each on its own line in a cell of a table."""
    return "<br/>".join(f"`{text}`" for text in texts)


PAGE = "rules.md"

_KEPT = re.compile(
    r"^```.*?^```$"  # blocks of code, charts among them
    r"|`[^`\n]*`|!?\[[^\]]*\]\([^)]*\)|<[^>\n]*>|https?://\S+"  # code, links, tags
    r"|^#.*?$",  # headings, which others link to
    re.M | re.S,
)


def anchor(number: str) -> str:
    """The anchor of a rule number, or of a family of rules, on the page of all rules."""
    return number.lower()


def link_numbers(text: str, page: str = PAGE) -> str:
    """The Markdown text with each rule number replaced by a link to ``page`` (empty: the same page).

    Code, charts, headings and existing links stay as they are.
    """
    pieces, end = [], 0
    for kept in _KEPT.finditer(text):
        pieces += [_linked(text[end : kept.start()], page), kept[0]]
        end = kept.end()
    return "".join([*pieces, _linked(text[end:], page)])


def _linked(text: str, page: str) -> str:
    return RULEBOOK.pattern.sub(lambda found: f"[{found[0]}]({page}#{anchor(found[0])})", text)


def run_table(protocol: Protocol, example: Counterexample) -> Iterator[str]:
    """A table of a run: for each step its sentence, and the changes that the protocol's drawing selects."""
    drawing = protocol.drawing or Drawing(())
    rows = (
        (
            number,
            step.sentence,
            code(change(protocol.state, *c) for c in step.changes.items() if tells(drawing, c[0])),
        )
        for number, step in enumerate(example.steps[1:], 2)
    )
    return table(("step:", "what happens", "what changes"), rows)


def properties(stated: Sequence[Invariant | Liveness]) -> Iterator[str]:
    """A list of properties, numbered like the columns of a table."""
    return (f"{n}. `{p.name}` ({p.source}): {p.meaning}" for n, p in enumerate(stated, 1))


def rules(stated: Mapping[str, Rule]) -> Iterator[str]:
    """A list of rules: name, source and sentence."""
    return (f"- `{name}` ({rule.source}): {rule.sentence}" for name, rule in stated.items())
