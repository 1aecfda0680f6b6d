"""One search decides invariants and liveness, with the same results as two."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from highwater.checker.base.problems import Status
from highwater.checker.engines import by_name as engines
from highwater.checker.engines.liveness import search_with_liveness
from highwater.checker.engines.native import search
from highwater.checker.engines.native import state_graph as explored
from highwater.checker.engines.native.state_graph import explore
from highwater.checker.runner import one as exploration
from highwater.checker.scenarios.request import asked
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.model.language import Model, Protocol, State, invariant
from tests.liveness.protocols import Flapping
from tests.native.on_disk import PARTS, small_batches

SOME = ("quorum/liveness-before-kip-1166", "zookeeper/defect-unseen-bounce", "replication/liveness-rejected")
"""The last one has an invariant too."""


def apart(model: Model, options: SearchOptions, progress: Any = None) -> SearchResult:
    """A search without a state graph, whatever the options say."""
    return search(
        model, SearchOptions(workers=options.workers, stop_at_first=options.stop_at_first), progress
    )


def model_of(name: str) -> Model:
    return asked(name).model()


def nothing_explored(*arguments: Any) -> Any:
    raise AssertionError("the graph is that of the search")


@pytest.mark.parametrize("name", SOME)
def test_one_search_finds_the_results_of_two(name: str) -> None:
    model = model_of(name)
    for first in (False, True):
        options = SearchOptions(workers=1, stop_at_first=first)
        found = search_with_liveness(model, search, nothing_explored, options)
        expected = search_with_liveness(model, apart, explore, options)
        assert found.graph is None
        for part in (*PARTS, "violations"):
            assert getattr(found, part) == getattr(expected, part), part


def test_where_the_graph_does_not_fit_the_search_goes_on_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search then decides all invariants, but no liveness property."""

    class Full(explored.GraphLevels):
        def _first_level(self) -> None:
            self.table.capacity = self.table._most = 1 << 12
            super()._first_level()

    monkeypatch.setattr(explored, "GraphLevels", Full)
    small_batches(monkeypatch)
    model, options = model_of("replication/liveness-rejected"), SearchOptions(workers=1)
    result = search_with_liveness(model, search, nothing_explored, options)
    assert result.stopped_by == "memory"
    assert result.distinct_states == apart(model, options).distinct_states
    beside = search_with_liveness(model, search, nothing_explored, replace(options, on_disk=False))
    assert beside.stopped_by == "memory"
    assert beside.distinct_states < result.distinct_states


@invariant("T")
def never_up(m: Protocol, s: State) -> Any:
    return ~s.up


def test_all_states_are_seen_where_every_invariant_is_violated() -> None:
    model = Model(Flapping(), (never_up,), Flapping.liveness)
    result = search_with_liveness(model, search, nothing_explored, SearchOptions(workers=1))
    assert result.complete
    assert result.distinct_states == len(explore(model, SearchOptions()).states)
    depths = {v.property: v.depth for v in result.violations}
    assert depths.pop("never_up") == 2
    assert depths.keys() == {"delivered_weakly", "delivered_if_the_link_stays", "sent"}


@pytest.mark.parametrize("name", ["native", "interpreter"])
def test_an_interrupt_while_loops_are_looked_for_leaves_it_open(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("highwater.checker.engines.liveness.search.violating_run", interrupted)
    request = asked("zookeeper/defect-unseen-bounce")
    outcome = exploration.explore(request, name, engines.search(name), SearchOptions(workers=1))
    assert outcome.distinct_states > 0
    assert (outcome.verdict, outcome.status) == ("inconclusive", Status.INTERRUPTED)
