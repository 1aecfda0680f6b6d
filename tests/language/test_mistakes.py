"""Protocols as texts: mistakes are errors of one line with the place and what to write; steps do what they say."""

from __future__ import annotations

import json
import re
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.scenarios.request import asked
from highwater.model.language.interpreter import BoundError, Interpreter
from tests.command import highwater

MINE = '''from highwater.language import *

SEEN = []


@invariant("example")
def small(m, s):
    """The count is small."""
    return s.n <= m.p.top
@TOP


class Mine(Protocol):
    parameters = {"nodes": Parameter(3, 1, 5, "nodes"), "top": Parameter(2, 1, 4, "the largest count")}
    rules = {"careful": Rule("example", "It counts only while it is off.")}
    invariants = (small,)
@CLASS

    def define(self):
@HEAD
        self.node, self.disk = Index("node", self.p.nodes), Index("disk", 2)
        self.place, self.shape = Enum("Place", "home work"), Enum("Shape", "ROUND LONG")
        self.msgs = Messages(ask=dict(to=self.node, prev=Int(0, 2)), tell=dict(who=self.node, up=Bool), stop={})
        self.asked = self.msgs.of("ask")
        self.pair = pair = Struct("Pair", who=self.node, up=Bool)
        other_pair = Struct("OtherPair", who=self.node, up=Bool)
        row, self.group = Array(self.node, Int(0, 2)), Set(self.node)
        logs = Array(self.node, Struct("Log", entries=Seq(Int(0, 2), 2)))
@DEFINE
        return Struct("State", n=Int(0, 4), on=Bool, log=Seq(Int(0, 2), 2, bound="log"), who=Set(self.node), row=row,
            at=self.place, o=Option(self.node), disk=self.disk, pair=pair, msgs=self.msgs, g=Bool, node=self.node,
            shape=self.shape, disks=Set(self.disk), other_pair=other_pair, parcel=Option(pair), small=Option(Int(0, 3)),
            negative=Option(Int(-2, 3)), logs=logs, shades=Array(self.place, Bool))

    def record(self, s, n):
        s.next.log = s.log.append(n)

    @action(says="count")
    def count(self, s):
        require("it is off", ~s.on, rule="careful")
        require("it is small", s.n < self.p.top)
        s.next.n = s.n + 1
        self.record(s, 1)

    @action(says="node {p} acts on {a[to]}", p="node", a="asked")
    def act(self, s, p, a):
        seen = []
@ACT
        s.next.on = ~s.on
'''
CASES = tomllib.loads(Path(__file__).with_name("mistakes.toml").read_text(encoding="utf-8"))
PLACES = {"ACT": 8, "DEFINE": 8, "HEAD": 8, "CLASS": 4, "TOP": 0, "SMALL": 4}
"""The indentation of the text."""
HEADS = {"ACT": 3, "DEFINE": 0, "HEAD": 1, "CLASS": 4, "TOP": 0, "SMALL": 3}
"""The lines above the text on which the error may stand: the head of the function or of the class."""


def written(where: str, text: str) -> tuple[str, range]:
    """The protocol with this text at a place, and the numbers of the lines on which its error may stand."""
    mark = "    return s.n <= m.p.top\n" if where == "SMALL" else f"@{where}\n"
    whole = MINE.replace(mark, textwrap.indent(text, " " * PLACES[where]) + "\n")
    first = MINE[: MINE.index(mark)].count("\n") + 1
    lines = range(first - HEADS[where], first + 3 + text.count("\n"))
    return re.sub(r"^@(?:ACT|DEFINE|HEAD|CLASS|TOP)\n", "\n", whole, flags=re.M), lines


MISTAKES = [(where, *row) for where in PLACES for row in CASES[where]]
ACCEPTED = [(where, text) for where, texts in CASES["accepted"].items() for text in texts]


@pytest.mark.parametrize(("where", "text", "remedy"), MISTAKES, ids=[text for _, text, _ in MISTAKES])
def test_a_mistake_names_its_line_and_what_to_write(
    tmp_path: Path, where: str, text: str, remedy: str
) -> None:
    file = tmp_path / "mine.py"
    whole, lines = written(where, text)
    file.write_text(whole, encoding="utf-8")
    run = highwater("check", file, "--engine", "interpreter")
    assert run.status == 2, run
    assert run.err.count("\n") == 1
    place = re.search(r"mine\.py:(\d+): ", run.err)
    assert place is not None, run.err
    assert remedy in run.err
    assert int(place[1]) in lines, run.err


@pytest.mark.parametrize(("where", "text"), ACCEPTED, ids=[text for _, text in ACCEPTED])
def test_what_looks_like_a_mistake_is_accepted(tmp_path: Path, where: str, text: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(written(where, text)[0], encoding="utf-8")
    run = highwater("check", file, "--engine", "interpreter", "--limit-states", "50")
    assert run.status in (0, 3), run


@pytest.mark.parametrize("case", CASES["steps"], ids=lambda case: case["do"])
def test_a_step_changes_the_state_as_written(tmp_path: Path, case: dict[str, Any]) -> None:
    """``then``: the fields after the step. ``never``: the step is disabled. ``error``: it leaves a type."""
    file = tmp_path / "mine.py"
    file.write_text(written("ACT", case["do"])[0], encoding="utf-8")
    model = asked(str(file)).model()
    state = model.protocol.state.encode(model.decode(model.initial[0]) | case.get("given", {}))
    steps = (s for s in Interpreter(model).steps(state) if s.instance.action.name == "act")
    if "error" in case:
        with pytest.raises(BoundError, match=case["error"]):
            next(steps)
        return
    step = next(steps, None)
    assert (step is None) == case.get("never", False)
    if step is not None and step.state is not None:
        reached = json.loads(json.dumps(model.decode(step.state)))
        assert reached | case["then"] == reached
    elif step is not None:
        assert step.cut == case["then"]
