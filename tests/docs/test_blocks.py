"""Blocks of a template are filled in at their marks; the rest stays unchanged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from docs.pages.markdown import asked_for, code, filled, row, table

PAGE = "# A page\n\nIt has {{ count }} things.\n\n{{ list a b }}\n\n{{ list c }}\n"
BLOCKS: dict[str, Callable[..., str | list[str]]] = {
    "count": lambda: "3",
    "list": lambda *words: ["", *(f"- {w}" for w in words), ""],
}


def test_blocks_are_filled_in_and_the_rest_stays() -> None:
    assert filled(PAGE, BLOCKS) == "# A page\n\nIt has 3 things.\n\n- a\n- b\n\n- c\n"


def test_the_words_of_marks_come_in_the_order_of_the_page() -> None:
    assert asked_for(PAGE, "list") == ["a b", "c"]
    assert asked_for(PAGE, "other") == []


def test_a_mark_without_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no block other: count, list"):
        filled("{{ other }}\n", BLOCKS)


def test_a_table_has_figures_at_the_right() -> None:
    lines = list(table(("what", "states:"), [("a", 1), ("b", 20)]))
    assert lines == ["| what | states |", "| --- | ---: |", "| a | 1 |", "| b | 20 |"]
    assert row(("", "x")) == "|  | x |"
    assert code(["a", "b"]) == "`a`<br/>`b`"
