"""Rule numbers in a page of HTML that stands for itself: links to what the rulebook says, at the page's end."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from highwater.model.language.rulebook import Rulebook


def linked(text: str, book: Rulebook) -> str:
    """A text as HTML, in which each number of the book is a link to ``section``, with the rule as its title."""
    return book.pattern.sub(
        lambda n: f'<a href="#rule-{n[0]}" title="{escape(book[n[0]].states)}">{n[0]}</a>', escape(text)
    )


def section(text: str, book: Rulebook) -> Iterator[str]:
    """What the book says of each number that a text names, as lines of HTML; nothing where it names none."""
    named = set(book.pattern.findall(text))
    if not named:
        return
    yield "<h2>The rules that are named here</h2>"
    for number, rule in book.items():
        if number not in named:
            continue
        cited = ", ".join(f'<a href="{escape(p.link)}">{escape(p.name)}</a>' for p in book.proposals(number))
        yield f'<h3 id="rule-{number}">{number}: {escape(rule.title)}</h3>'
        yield f"<p>{escape(rule.states)}</p><p><b>Why:</b> {escape(rule.why)}</p>"
        if rule.beyond:
            yield f"<p><b>Beyond the proposal's letter:</b> {escape(rule.beyond)}</p>"
        if cited:
            yield f"<p>From {cited}{', ' if rule.section else ''}{escape(rule.section)}</p>"
