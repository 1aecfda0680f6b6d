"""The bounded check finds what the explorer finds, at the same depth, and nothing else."""

from __future__ import annotations

import pytest

from checker import native
from checker.counterexample import follow_all
from checker.search import DEADLOCK, SearchOptions
from checker.solver import bounded
from checker.solver.limits import Limits
from model.language import LanguageError, Model
from tests import models, zoo

GALLERY = [name for name in models.scenario_names() if name.startswith("replication/defect-")]
QUICK = {"fenced-both", "clean-registration", "join-below-hwm"}
WITHIN = 12


def depths(model: Model, depth: int, *, deadlock: bool = False, **options: bool) -> dict[str, int]:
    """Property to the depth of the shortest run to a violation, each taken again by the interpreter."""
    result = bounded.check(model, depth, deadlock=deadlock, **options)
    return {e.name: e.depth for e in follow_all(model, result.violations)}


def explored(model: Model, depth: int, *, deadlock: bool = False) -> dict[str, int]:
    """The same from the native search."""
    result = native.search(model, SearchOptions(workers=1, deadlock=deadlock, limit_states=2_000_000))
    return {v.property: v.depth for v in result.violations if v.depth <= depth}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=() if n.removeprefix("replication/defect-") in QUICK else (pytest.mark.slow,))
        for n in GALLERY
    ],
)
def test_defects_are_found_at_the_explorers_depth(name: str) -> None:
    model = models.scenario_model(name)
    found = native.search(model, SearchOptions(workers=1, stop_at_first=True))
    expected = {v.property: v.depth for v in found.violations if v.depth <= WITHIN}
    assert depths(model, min(WITHIN, max(expected.values(), default=WITHIN))) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", GALLERY)
def test_with_every_rule_on_there_is_no_defect_at_that_depth(name: str) -> None:
    from tests.replication.test_defects import every_rule_on

    found = bounded.check(models.scenario_model(name), WITHIN, stop_at_first=True)
    if not found.violations:
        pytest.skip("the defect lies deeper, or another rule closes it too")
    assert depths(every_rule_on(name.removeprefix("replication/defect-")), found.depth) == {}


@pytest.mark.parametrize(
    ("name", "depth"),
    [
        ("kafka-trunk-min-isr", 3),
        pytest.param("kafka-trunk-last-known-leader", 7, marks=pytest.mark.slow),
        pytest.param("stale-broker-epoch", 7, marks=pytest.mark.slow),
    ],
)
def test_the_controllers_defects_are_found_at_the_explorers_depth(name: str, depth: int) -> None:
    model = models.scenario_model(f"replication/controller/{name}")
    expected = explored(model, depth)
    assert expected
    assert depths(model, depth) == expected
    assert depths(model, depth, grouped=True) == expected


def test_several_initial_states_deadlocks_and_the_end_of_all_runs() -> None:
    counters = Model(zoo.Counters({"counters": 2, "top": 2}), [zoo.never_all_at_top, zoo.first_leads])
    assert depths(counters, 9, deadlock=True) == explored(counters, 9, deadlock=True)
    assert depths(counters, 9, deadlock=True) == {DEADLOCK: 5, "never_all_at_top": 5}
    result = bounded.check(counters, 9)
    assert result.complete
    assert result.depth == 5
    assert bounded.check(counters, 4).stopped_by == "depth"

    properties = [zoo.log_or_parcel, zoo.sets_are_bounded]
    everything = Model(zoo.Everything({"nodes": 2}, []), properties)
    assert len(everything.initial) == 2
    expected = explored(everything, 8)
    assert expected
    for options in ({}, {"grouped": True}, {"integers": True}):
        assert depths(everything, 8, **options) == expected


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
