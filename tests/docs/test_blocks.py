"""Blocks of a page are computed where the marks are, and nothing else of it changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from docs.pages.blocks import asked_for, code, filled, row, table

PAGE = """# A page

By hand, and <!-- computed: count -->7<!-- end --> things.

<!-- computed: list a b -->
- old
<!-- end -->

<!-- computed: list c -->
<!-- end -->
"""
BLOCKS: dict[str, Callable[..., str | list[str]]] = {
    "count": lambda: "3",
    "list": lambda *words: ["", *(f"- {w}" for w in words), ""],
}


def test_blocks_are_computed_anew_and_the_rest_stays() -> None:
    told = filled(PAGE, BLOCKS)
    assert told == PAGE.replace("7", "3").replace("- old", "- a\n- b").replace("c -->\n", "c -->\n- c\n")
    assert filled(told, BLOCKS) == told


def test_what_is_asked_is_read_in_the_order_of_the_page() -> None:
    assert asked_for(PAGE, "list") == ["a b", "c"]
    assert asked_for(PAGE, "other") == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("<!-- computed: other -->\n<!-- end -->\n", "there is no block other: count, list"),
        ("<!-- computed: count -->\n", "do not pair"),
        ("<!-- end -->\n", "do not pair"),
        ("<!-- computed: -->\n<!-- end -->\n", "do not pair"),
        ("<!-- computed: count -->\n<!-- computed: count -->\n<!-- end -->\n<!-- end -->\n", "do not pair"),
    ],
)
def test_marks_that_are_none_are_refused(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        filled(text, BLOCKS)


def test_no_inline_mark_begins_a_line_of_a_page() -> None:
    """The rest of the line would be HTML to Markdown, and not be shown as it is meant."""
    with pytest.raises(ValueError, match="begins a line"):
        filled("<!-- computed: count -->7<!-- end --> things\n", BLOCKS)


def test_a_table_has_figures_at_the_right() -> None:
    lines = list(table(("what", "states:"), [("a", 1), ("b", 20)]))
    assert lines == ["| what | states |", "| --- | ---: |", "| a | 1 |", "| b | 20 |"]
    assert row(("", "x")) == "|  | x |"
    assert code(["a", "b"]) == "`a`<br/>`b`"
