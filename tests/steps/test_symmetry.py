"""Step properties with symmetry are checked on real steps from one state of each equivalence class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from highwater.checker.engines import native
from highwater.checker.report import counterexample
from highwater.checker.scenarios.search import EngineError, SearchOptions
from highwater.model.language import Model, State, step_property
from tests.native.on_disk import on_disk, small_batches
from tests.steps.ledger import DEPTHS, Ledger, ledger

WITH = SearchOptions(workers=1, symmetry=True, all_states=True)


@step_property("test")
def the_first_never_falls(m: Any, before: State, after: State) -> Any:
    """The property is not symmetric: renaming nodes changes it."""
    return before.values[0] <= after.values[0]


def test_the_same_depths_with_fewer_states(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ledger()
    whole, found = native.search(model, replace(WITH, symmetry=False)), native.search(model, WITH)
    assert found.distinct_states < whole.distinct_states / 3
    assert {v.property: v.depth for v in found.violations} == DEPTHS
    counterexample.follow_all(model, found.violations)  # runs contain real states, not renamed ones
    small_batches(monkeypatch)
    kept = on_disk(model, slots=1 << 9, workers=1, symmetry=True, all_states=True)
    assert (kept.distinct_states, kept.premises) == (found.distinct_states, found.premises)
    assert {v.property: v.depth for v in kept.violations} == DEPTHS


def test_an_asymmetric_property_is_refused() -> None:
    model = Model(Ledger(), step_properties=[the_first_never_falls])
    with pytest.raises(EngineError, match="property the_first_never_falls differs under node 0 ↔"):
        native.search(model, WITH)
