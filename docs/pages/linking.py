"""Links from rule numbers in a page to docs/rules.md, where each has an anchor."""

from __future__ import annotations

import re

from highwater.model.rulebook import RULEBOOK

PAGE = "rules.md"

_KEPT = re.compile(
    r"^```.*?^```$"  # blocks of code, charts among them
    r"|`[^`\n]*`|!?\[[^\]]*\]\([^)]*\)|<[^>\n]*>|https?://\S+"  # code, links, tags
    r"|^#.*?$",  # headings, which others link to
    re.M | re.S,
)


def anchor(number: str) -> str:
    """The anchor of a number, or of a family, on the page of all rules."""
    return number.lower()


def link_numbers(text: str, page: str = PAGE) -> str:
    """Markdown with every number of the rulebook in it as a link to ``page`` (empty: the same page).

    What is code, a chart, a heading, or a link already stays as it is; so a text that has been linked does.
    """
    pieces, end = [], 0
    for kept in _KEPT.finditer(text):
        pieces += [_linked(text[end : kept.start()], page), kept[0]]
        end = kept.end()
    return "".join([*pieces, _linked(text[end:], page)])


def _linked(text: str, page: str) -> str:
    return RULEBOOK.pattern.sub(lambda found: f"[{found[0]}]({page}#{anchor(found[0])})", text)
