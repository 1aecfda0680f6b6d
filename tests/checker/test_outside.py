"""``--outside``: states just outside of a bound are checked but not expanded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import highwater as package
from tests.checker.conftest import Command
from tests.checker.schema import result_problems

LOG = '''
from highwater.language import Array, Index, Int, Option, Parameter, Protocol, Rule, Seq, Struct
from highwater.language import action, invariant, require

@invariant("")
def nothing_is_copied_twice(m, s):
    """A follower has at most what the leader has."""
    return s.copy.length <= s.log.length

@invariant("")
def terms_are_low(m, s):
    """A term is at most the number that the scenario grants."""
    return s.term.value <= m.p.terms + m.p.slack

class Log(Protocol):
    """A leader's log and a copy of it, each of so many records; terms that go up."""

    name = "log"
    parameters = {
        "records": Parameter(2, 1, 4, "of the log"),
        "terms": Parameter(2, 1, 4, "at most"),
        "slack": Parameter(1, 0, 1, "of the property"),
    }
    rules = {"offset_check": Rule("", "A record is copied to its place only.")}
    invariants = [nothing_is_copied_twice, terms_are_low]

    def define(self):
        self.record = Int(0, 1)
        self.log = Seq(self.record, self.p.records, bound="records")
        self.terms = Int(0, self.p.terms, bound="terms")
        self.place = Index("place", self.p.terms + 1)
        return Struct("State", log=self.log, copy=self.log, term=Option(self.terms), seen=Array(self.place, Int(0, 1)))

    def initial(self):
        return [{"log": [], "copy": [], "term": None, "seen": [0] * (self.p.terms + 1)}]

    @action("", v="record")
    def write(self, s, v):
        require("there is room", s.log.length < self.p.records)
        s.next.log = s.log.append(v)

    @action("")
    def copy(self, s):
        require("there is one", ~s.log.is_empty)
        if self.on("offset_check"):
            require("it is the next", s.copy.length == s.log.length - 1)
        else:
            require("the log is full", s.log.length == self.p.records)
        s.next.copy = s.copy.append(s.log.last)

    @action("")
    def elect(self, s):
        s.next.term = s.term.value + 1

    @action("")
    def note(self, s):
        s.next.term = s.term.value + 1
        s.next.seen[s.term.value + 1] = 1
'''


@pytest.fixture
def log(tmp_path: Path) -> Any:
    (tmp_path / "log.py").write_text(LOG)
    path = tmp_path / "log.toml"
    path.write_text('protocol = "log.py"\n[expect]\ndistinct_states = 48\n')
    return path


@pytest.mark.parametrize("engine", ["native", "interpreter"])
def test_a_defect_that_a_bound_hides_is_found(highwater: Command, log: Any, engine: str) -> None:
    """The follower copies the last record twice; its log then exceeds the bound."""
    wrong: dict[str, Any] = {"rules": {"offset_check": False}, "engine": engine}
    hidden = package.check(log, **wrong)
    assert (hidden.verdict, hidden.search.cut["records"] > 0) == ("holds", True)
    found = package.check(log, **wrong, outside=True)
    assert [v.name for v in found.violations] == ["nothing_is_copied_twice"]
    last = found.violations[0].steps[-1]
    assert (last.action, len(last.state["copy"])) == ("copy", 3)
    assert found.outside_states is not None
    assert found.distinct_states - found.outside_states == hidden.distinct_states


@pytest.mark.parametrize("engine", ["native", "interpreter"])
def test_a_property_of_the_states_outside(log: Any, engine: str) -> None:
    """The property holds outside of the bound with slack and fails without slack."""
    assert package.check(log, engine=engine, outside=True, properties=["terms_are_low"]).holds is True
    tight: dict[str, Any] = {"parameters": {"slack": 0}, "engine": engine, "properties": ["terms_are_low"]}
    assert package.check(log, **tight).holds is True
    assert package.check(log, **tight, outside=True).verdict == "violated"


REGISTER = "docs/examples/register.toml"


@pytest.mark.parametrize(
    ("name", "engine"),
    [(REGISTER, "native"), (REGISTER, "interpreter"), ("truncation/kip-279", "native")],
)
def test_inside_nothing_changes(name: str, engine: str) -> None:
    plain, wide = (
        package.check(name, engine=engine, outside=outside, properties=["invariants"])
        for outside in (False, True)
    )
    outside = wide.outside_states
    assert outside is not None
    assert wide.distinct_states - outside == plain.distinct_states
    assert (outside > 0) == any(plain.search.cut.values())
    assert wide.depth in (plain.depth, plain.depth + 1)
    assert {v.name for v in plain.violations} <= {v.name for v in wide.violations}


def test_states_outside_of_the_bounds_are_reported(highwater: Command, log: Any) -> None:
    (result,) = highwater("check", log, "--outside", "--json", "-").results
    assert result_problems(result) == []
    assert result["outside_states"] > 0
    assert "outside" not in result["premises"]
    told = highwater("check", log, "--outside").out
    assert (
        f"{result['outside_states']:,} of these states are outside the bounds: checked, not expanded" in told
    )
    assert "not compared: distinct_states, expected of a search inside the bounds" in told
    assert highwater("check", log, "--json", "-").results[0]["outside_states"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["truncation/kip-101", "--deadlock"], "deadlock cannot be checked with --outside"),
        (["quorum/liveness-elections"], "hwm_comes_with_the_timer"),
        (["truncation/kip-101", "--engine", "spark"], "the Spark engine does not look outside the bounds"),
    ],
)
def test_outside_refuses_unsupported_options(highwater: Command, arguments: Any, said: Any) -> None:
    ran = highwater("check", *arguments, "--outside")
    assert (ran.status, ran.out, said in ran.err) == (2, "", True)
