"""The benchmark of the explorer: it says where no browser was, and its condition holds nowhere."""

from __future__ import annotations

from docs.bench import explore
from highwater.checker.asking.search import SearchOptions
from highwater.checker.explore.session import Path, Session
from tests.models import scenario_model


def test_what_is_missing_without_a_browser_is_said() -> None:
    assert "no browser was there" in explore.section(["| page of x | 0.10 MB | |"], "a machine")
    assert "no browser" not in explore.section(
        ["| a step in a browser, from the click | 5 ms | |"], "a machine"
    )


def test_the_condition_that_is_searched_for_is_one() -> None:
    session = Session(scenario_model(explore.SCENARIO))
    assert not session.holds(session.model.initial[0], explore.NOWHERE)
    nearer = explore.NOWHERE.replace("not (", "(")
    assert session.nearest(Path(), nearer, SearchOptions(stop_at_first=True)).path == Path()
