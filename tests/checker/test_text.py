"""Terminal text: values of a state, and lines folded at the width, never inside a word."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.checker.base import text
from highwater.checker.base.text import columns, folded
from highwater.checker.report.counterexample import Counterexample, read_by
from highwater.model.language import (
    Array,
    Bool,
    Enum,
    Index,
    Int,
    Model,
    Number,
    Option,
    Protocol,
    State,
    Struct,
    action,
    eventually,
)
from highwater.traces.reports.text import fold

INNER = Struct("Inner", known=Option(Int(0, 3)), late=Bool, at=Int(0, 3))
NODE = Index("node", 2)
STATE = Struct("State", inner=INNER, rows=Array(NODE, INNER), count=Int(0, 3))
VALUE: dict[str, Any] = {"known": None, "late": False, "at": 0}


def test_brief_text_omits_none_and_false_but_not_zero() -> None:
    assert text.say(INNER, VALUE) == "(known none, late false, at 0)"
    assert text.say(INNER, VALUE, brief=True) == "(at 0)"
    assert text.say(INNER, {"known": 0, "late": True, "at": 1}, brief=True) == "(known 0, late true, at 1)"
    assert text.say(Option(INNER), VALUE, brief=True) == "(at 0)"
    assert text.say(Array(NODE, INNER), [VALUE, VALUE], brief=True) == "[(at 0), (at 0)]"


def test_arrays_over_an_enumeration_print_member_names() -> None:
    by_kind = Array(Enum("kind", ("old", "new")), INNER)
    assert (
        text.say(by_kind, {"old": VALUE, "new": {**VALUE, "at": 2}}, brief=True) == "[old (at 0), new (at 2)]"
    )


def test_a_state_as_far_as_it_is_read() -> None:
    state = {"inner": VALUE, "rows": [VALUE, {**VALUE, "at": 2}], "count": 1}
    whole = list(text.lines(STATE, state))
    assert [path for path, _ in whole] == ["inner", "rows[0]", "rows[1]", "count"]
    assert list(text.lines(STATE, state, ["inner.at", "rows[1].late", "rows[1].at"])) == [
        ("inner", "at 0"),
        ("rows[1]", "late false, at 2"),
    ]
    assert list(text.lines(STATE, state, [])) == []


class Counts(Protocol):
    def define(self) -> Struct:
        self.node = NODE
        return Struct("State", counts=Array(NODE, Int(0, 2, bound="n")), other=Bool)

    @action("A", c="node")
    def count(self, s: State, c: Number) -> None:
        s.next.counts[c] = s.counts[c] + 1


@eventually("E", c="node")
def is_counted(m: Counts, s: State, c: Number) -> Any:
    return s.counts[c] > 0


def test_a_parametrized_property_prints_the_fields_of_its_parameter() -> None:
    model = Model(Counts(), (), (is_counted,))
    for node in (0, 1):
        example = Counterexample("is_counted", "E", "", (), parameters={"c": node})
        assert read_by(model, example) == [f"counts[{node}]"]
    assert read_by(model, Counterexample("unknown", "", "", ())) is None


ROWS = [
    ("elr_only_under_min_isr", "966.6", "There is an ELR only while the ISR is under min ISR."),
    ("x", "", ""),
]


def test_without_a_width_a_text_is_one_line() -> None:
    assert fold("word " * 60 + "end", "  ", None) == ["  " + "word " * 60 + "end"]


def test_a_text_is_folded_between_words() -> None:
    found = fold("a_rather_long_name_of_a_property follows leader-epochs", "- ", 24)
    assert found == ["- a_rather_long_name_of_a_property", "- follows leader-epochs"]


def test_the_last_column_is_folded_in_its_place() -> None:
    assert list(columns(ROWS, " ", 64)) == [
        " elr_only_under_min_isr  966.6  There is an ELR only while the",
        "                                ISR is under min ISR.",
        " x",
    ]
    assert next(columns(ROWS, "", None)).endswith("under min ISR.")


def test_a_text_without_room_is_printed_below_its_label() -> None:
    assert list(columns(ROWS, "", 44)) == [
        "elr_only_under_min_isr  966.6",
        "    There is an ELR only while the ISR is",
        "    under min ISR.",
        "x",
    ]


def test_reports_are_folded_at_columns_each_line_with_its_indent(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["  a line that is longer than the screen", "", "short"]
    monkeypatch.delenv("COLUMNS", raising=False)
    assert list(folded(lines)) == lines
    monkeypatch.setenv("COLUMNS", "24")
    assert list(folded(lines)) == ["  a line that is longer", "    than the screen", "", "short"]
