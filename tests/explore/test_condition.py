"""Typed conditions mean what Python means for the plain state, and cannot read anything else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.checker.base.problems import InputError
from highwater.checker.explore.condition import LONGEST, condition, value
from highwater.checker.explore.session import Path, Session, examples
from highwater.checker.scenarios.request import asked
from highwater.model.language import graph
from highwater.model.language.graph import compile_nodes


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(asked("replication/defect-truncate-to-hwm").model())


@pytest.fixture(scope="module")
def states(session: Session) -> list[tuple[int, ...]]:
    return [state for seed in range(6) for state in session.states(session.walk(Path(), 25, seed))]


def plain(value: Any) -> Any:
    """A decoded state with its fields as attributes, as protocols see it."""
    if isinstance(value, dict):
        return SimpleNamespace(**{name: plain(item) for name, item in value.items()})
    return [plain(item) for item in value] if isinstance(value, list) else value


MEANINGS = {
    "partition.leader is none": lambda s: s.partition.leader is None,
    "0 in partition.isr": lambda s: 0 in s.partition.isr,
    "0 not in partition.isr or not partition.elr.is_empty": lambda s: 0 not in s.partition.isr or bool(s.partition.elr),
    "partition.leader in [0, 2]": lambda s: s.partition.leader in (0, 2),
    "size(partition.isr) - 1 < partition.leader_epoch + 1 <= 2": lambda s: len(s.partition.isr) - 1
    < s.partition.leader_epoch + 1
    <= 2,
    "brokers[1].status != 'RUNNING'": lambda s: s.brokers[1].status != "RUNNING",
    "brokers[0].log.length == 1 and brokers[0].log[0].value == 0": lambda s: len(s.brokers[0].log) == 1,
    "any(brokers[b].hwm > 0 for b in broker)": lambda s: any(b.hwm > 0 for b in s.brokers),
    "all(b in partition.isr for b in broker if b != 0)": lambda s: all(b in s.partition.isr for b in (1, 2)),
    "count(registrations[b].fenced for b in broker) == 1": lambda s: sum(r.fenced for r in s.registrations) == 1,
    "count(brokers[b].log.length > brokers[c].hwm for b in broker for c in broker) >= 0": None,
    "fetch_requests[1].is_some and fetch_requests[1].value.offset == 1": lambda s: s.fetch_requests[1] is not None
    and s.fetch_requests[1].offset == 1,
    "(partition.isr | partition.elr) - [0] == [1, 2]": lambda s: sorted(
        {*s.partition.isr, *s.partition.elr} - {0}
    )
    == [1, 2],
}  # fmt: skip


NEVER_OTHERWISE = ("partition.leader is none", "brokers[1].status != 'RUNNING'")
"""The only conditions that are never true or never false in these states."""


@pytest.mark.parametrize("text", [t for t, meaning in MEANINGS.items() if meaning])
def test_a_condition_means_what_python_means(
    session: Session, states: list[tuple[int, ...]], text: str
) -> None:
    meaning = MEANINGS[text]
    assert meaning is not None
    ask = compile_nodes([condition(session.model, text)])
    said = [bool(ask(state)[0]) for state in states]
    assert said == [bool(meaning(plain(session.model.decode(state)))) for state in states]
    assert len(set(said)) == 2 or text in NEVER_OTHERWISE


WRONG = {
    "": "is no condition",
    "partition": "is a value, not a condition",
    "partitoin.leader == 1": "did you mean 'partition'",
    "partition.leeder == 1": "there is no .leeder here",
    "partition.__class__ == 1": "there is no .__class__ here",
    "brokers[0].log.append(1) == 1": "is called",
    "__import__('os').system('true')": "is called",
    "(lambda: 1)()": "is called",
    "[x for x in broker] == 1": "has no meaning here",
    "brokers[0:1] == 1": "has no elements",
    "brokers[7].hwm > 0": "7 is not a value of Index(broker, 3)",
    "any(b > 0 for b in partition.isr)": "goes over one index",
    "any(b > 0 for b in broker for c in broker)": "goes over one index",
    "brokers[0].status == 'RUNING'": "'RUNING'",
    "brokers[0].hwm is 1": "compares with `is` what is not none",
    "1 in 2": "does not fit together",
    "2 ** 100 == 1": "is an operator that there is not",
    "enabled('nothing')": "has no action 'nothing'",
    "size(1, 2) == 1": "takes one argument",
    "(" * 400 + "1" + ")" * 400: "is no condition",
    "not " * 900 + "brokers[0].hwm > 0": "",
    "x" * (LONGEST + 1): "characters at most",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda t: t[:30])
def test_an_invalid_condition_gives_one_line(session: Session, text: str) -> None:
    with pytest.raises(InputError) as wrong:
        condition(session.model, text)
    assert WRONG[text] in str(wrong.value)
    assert len(str(wrong.value)) < 1200


def test_a_state_s_parts_can_be_read(session: Session) -> None:
    state = session.model.initial[0]
    assert session.said(state, "partition.isr") == "{0,1,2}"
    assert session.said(state, "partition.isr.is_empty") == "false"
    assert session.said(state, "size(partition.isr) + 1") == "4"
    with pytest.raises(InputError, match="reads nothing"):
        value(session.model, "[1, 2]")


PIECES = st.sampled_from(
    ["partition", ".leader", ".isr", " and ", " or ", "not ", "(", ")", "[", "]", "0", "1", " in ", " == ", " < ", "-",
     "any(", " for b in broker", "brokers[b]", ".hwm", "none", "'x'", "size(", ",", ".value", "*", "//0", "%",
     "lambda:", "\n", "\0", "é", "enabled("]
)  # fmt: skip


@settings(max_examples=300)
@given(st.lists(PIECES, max_size=12).map("".join))
def test_random_text_is_a_condition_or_is_refused(session: Session, text: str) -> None:
    try:
        found = condition(session.model, text)
    except InputError:
        return
    assert found.sort == graph.BOOL


@pytest.mark.parametrize(
    "name", ["truncation/kip-101", "replication/defect-late-fetch", "docs/examples/register.toml"]
)
def test_example_conditions_of_the_page_are_valid(name: str) -> None:
    session = Session(asked(name).model())
    sought, watched = examples(session.model.protocol.state)
    assert sought
    assert watched.startswith("size(")
    assert session.said(session.model.initial[0], sought) in ("false", "true")
    assert session.said(session.model.initial[0], watched).isdecimal()
