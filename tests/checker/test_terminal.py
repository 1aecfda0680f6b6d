"""Lines for people: folded at the width, never inside a word, and in columns."""

from __future__ import annotations

from highwater.checker.base.text import columns
from highwater.traces.reports.text import fold

ROWS = [
    ("elr_only_under_min_isr", "966.6", "There is an ELR only while the ISR is under min ISR."),
    ("x", "", ""),
]


def test_without_a_width_a_text_is_one_line() -> None:
    assert fold("word " * 60 + "end", "  ", None) == ["  " + "word " * 60 + "end"]


def test_a_text_is_folded_between_words() -> None:
    folded = fold("a_rather_long_name_of_a_property follows leader-epochs", "- ", 24)
    assert folded == ["- a_rather_long_name_of_a_property", "- follows leader-epochs"]


def test_the_last_column_is_folded_in_its_place() -> None:
    assert list(columns(ROWS, " ", 64)) == [
        " elr_only_under_min_isr  966.6  There is an ELR only while the",
        "                                ISR is under min ISR.",
        " x",
    ]
    assert next(columns(ROWS, "", None)).endswith("under min ISR.")


def test_it_stands_below_where_there_is_no_room() -> None:
    assert list(columns(ROWS, "", 44)) == [
        "elr_only_under_min_isr  966.6",
        "    There is an ELR only while the ISR is",
        "    under min ISR.",
        "x",
    ]
