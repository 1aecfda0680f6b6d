"""Blocks of a template are filled in at their marks; the rest stays unchanged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from docs.pages.markdown import filled

PAGE = "# A page\n\nIt has {{ count }} things.\n\n{{ list a b }}\n\n{{ list c }}\n"
BLOCKS: dict[str, Callable[..., str | list[str]]] = {
    "count": lambda: "3",
    "list": lambda *words: ["", *(f"- {w}" for w in words), ""],
}


def test_blocks_are_filled_in_and_the_rest_stays() -> None:
    assert filled(PAGE, BLOCKS) == "# A page\n\nIt has 3 things.\n\n- a\n- b\n\n- c\n"


def test_a_mark_without_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no block other: count, list"):
        filled("{{ other }}\n", BLOCKS)
