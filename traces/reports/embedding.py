"""Data and texts inside a page of HTML that stands for itself: nothing in them can become HTML or a request."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from highwater.model.language.rulebook import Rulebook

_EXACT = 2**53
"""Whole numbers beyond it are not exact in a browser; they are written as text."""
_DEEP = 40
"""A value that is nested deeper is cut there."""


def as_json(value: Any) -> str:
    """JSON that can stand in a script element: ``<``, ``>``, ``&`` and all that is not ASCII are escaped."""
    text = json.dumps(_plain(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _plain(value: Any, depth: int = 0) -> Any:
    """A value as JSON has it, whatever it was; what a browser would not read exactly becomes text."""
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
    """The content security policy of a page: its one style and its one script, if any, known by their hashes, are all.

    With ``asks`` the page may ask the server that it comes from.
    """
    style = _hash(_between(page, "<style>", "</style>"))
    script = _hash(_between(page, "<script>", "</script>")) if "<script>" in page else "'none'"
    connect = "connect-src 'self'; " if asks else ""
    return f"default-src 'none'; {connect}style-src {style}; script-src {script}; base-uri 'none'; form-action 'none'"


def signs() -> str:
    """The style of what pages have in common: their colours, and the signs of leader, ISR, ELR and the rest."""
    return Path(__file__).with_name("signs.css").read_text(encoding="utf-8")


def told_rules(book: Rulebook, named: Collection[str]) -> dict[str, Any]:
    """What a rulebook says of these numbers, as far as it has them, as data of a page."""
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
    """How a policy names a text that it allows."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"
