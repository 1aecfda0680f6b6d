"""Uses of `Any` are listed by place (``any.toml``), each with a reason, and must not grow."""

from __future__ import annotations

import io
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from tests.house.test_sizes import sources

LISTED: dict[str, dict[str, object]] = tomllib.loads(
    (Path(__file__).parent / "any.toml").read_text(encoding="utf-8")
)["edges"]
PRODUCT = ("model", "invariants", "traces", "checker")


def naming_any(text: str) -> int:
    """The number of lines that name `Any`, imports left out."""
    if "Any" not in text:
        return 0
    lines, imports = set(), set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and token.string == "Any":
            lines.add(token.start[0])
        elif token.type == tokenize.NAME and token.string == "import":
            imports.add(token.start[0])
    return len(lines - imports)


def place(name: str) -> str:
    """The longest entry of the list that contains the file, else the file."""
    within = [edge for edge in LISTED if name == edge or name.startswith(edge.rstrip("/") + "/")]
    return max(within, key=len, default=name)


@pytest.fixture(scope="module")
def found() -> Counter[str]:
    counted: Counter[str] = Counter()
    for name, text in sources():
        if name.startswith(PRODUCT):
            counted[place(name)] += naming_any(text)
    return +counted


def test_any_is_named_at_the_edges_alone(found: Counter[str]) -> None:
    assert sorted(set(found) - set(LISTED)) == [], "give it a type, or say what is beyond the edge"


def test_the_number_of_lines_with_any_does_not_grow(found: Counter[str]) -> None:
    grown = {edge: (n, LISTED[edge]["lines"]) for edge, n in found.items() if edge in LISTED}
    assert {edge: pair for edge, pair in grown.items() if pair[0] > int(str(pair[1]))} == {}


def test_each_entry_has_a_reason_and_is_used(found: Counter[str]) -> None:
    for edge, entry in LISTED.items():
        assert set(entry) == {"lines", "why"}, edge
        assert len(str(entry["why"]).split()) > 3, edge
        assert edge in found, f"{edge} names it no more: strike it off"


def test_naming_any_counts_lines_of_code() -> None:
    text = 'from typing import Any\n\n\ndef f(a: Any, b: Any) -> int:\n    """Any."""\n    return 1\n'
    assert naming_any(text) == 1
    assert naming_any("x: dict[str, Any]\ny = 'Any'\n# Any\n") == 1
    assert naming_any("Anything = 1\n") == 0
