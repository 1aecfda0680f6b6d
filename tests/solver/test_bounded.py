"""The bounded check finds the explorer's violations at the same depths, and no others."""

from __future__ import annotations

import signal
from typing import Any

import pytest
import z3

from highwater.checker.engines import native
from highwater.checker.engines.solver import bounded
from highwater.checker.engines.solver.terms import Limits
from highwater.checker.report.counterexample import follow_all
from highwater.checker.scenarios.search import DEADLOCK, SearchOptions
from highwater.model.language import Int, LanguageError, Model, Protocol, State, Struct, action, invariant
from tests import models, zoo


def depths(model: Model, depth: int, *, deadlock: bool = False) -> dict[str, int]:
    """Property → depth of its shortest violation, confirmed by the interpreter."""
    result = bounded.check(model, depth, deadlock=deadlock)
    return {e.name: e.depth for e in follow_all(model, result.violations)}


def explored(model: Model, depth: int, *, deadlock: bool = False) -> dict[str, int]:
    """Property → depth of its violation within ``depth``, by the native search."""
    result = native.search(model, SearchOptions(workers=1, deadlock=deadlock, limit_states=5_000_000))
    assert result.complete or result.stopped_by == "violation" or result.depth > depth + 1
    return {v.property: v.depth for v in result.violations if v.depth <= depth}


def test_several_initial_states_deadlocks_and_the_end_of_all_runs() -> None:
    counters = Model(zoo.Counters({"counters": 2, "top": 2}), [zoo.never_all_at_top, zoo.first_leads])
    assert depths(counters, 9, deadlock=True) == explored(counters, 9, deadlock=True)
    assert depths(counters, 9, deadlock=True) == {DEADLOCK: 5, "never_all_at_top": 5}
    assert depths(Model(counters.protocol, []), 9, deadlock=True) == {DEADLOCK: 5}
    result = bounded.check(counters, 9)
    assert result.complete
    assert result.depth == 5
    assert bounded.check(counters, 4).stopped_by == "depth"

    properties = [zoo.log_or_parcel, zoo.sets_are_bounded]
    everything = Model(zoo.Everything({"nodes": 2}, []), properties)
    assert len(everything.initial) == 2
    expected = explored(everything, 8)
    assert expected
    assert depths(everything, 8) == expected


class Odometer(Protocol):
    """A bounded number, and the count of its increments."""

    name = "odometer"

    def define(self) -> Struct:
        return Struct("State", at=Int(0, 3, bound="end"), raised=Int(0, 15, bound="often"))

    def initial(self) -> list[dict[str, object]]:
        return [{"at": 0, "raised": 0}]

    @action()
    def up(self, s: State) -> None:
        s.next.at = s.at + 1
        s.next.raised = s.raised + 1


@invariant("test")
def never_turns_over(m: Odometer, s: State) -> object:
    return s.at == s.raised


def test_a_step_that_is_cut_is_not_taken() -> None:
    result = bounded.check(Model(Odometer(), [never_turns_over]), 9)
    assert result.violations == []
    assert (result.complete, result.depth) == (True, 4)


def test_leaving_a_type_is_an_error_as_in_every_engine() -> None:
    model = Model(zoo.Everything({"nodes": 2}, ["undeclared"]), [])
    with pytest.raises(LanguageError, match="leaves"):
        bounded.check(model, 8)


def test_limits_are_results() -> None:
    model = models.scenario_model("truncation/kip-101")
    stopped = bounded.check(model, 100, limits=Limits(seconds=0.5))
    assert stopped.stopped_by == "seconds"
    assert 0 < stopped.depth < 100
    assert not stopped.complete
    assert len(stopped.depths) == stopped.depth
    assert bounded.check(model, 100, limits=Limits(memory_bytes=1 << 20)).stopped_by == "memory"


def test_ctrl_c_is_delivered_between_calls_of_z3(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a call it would be an error of ctypes, or leave a term with a wrong count of references."""
    returned: list[object] = []
    made = z3.And

    def interrupted(*terms: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        returned.append(made(*terms))
        return returned[-1]

    monkeypatch.setattr(z3, "And", interrupted)
    result = bounded.check(Model(zoo.Counters({"counters": 2, "top": 2}), [zoo.never_all_at_top]), 4)
    assert (result.stopped_by, result.depth, bool(returned)) == ("interrupted", 0, True)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
