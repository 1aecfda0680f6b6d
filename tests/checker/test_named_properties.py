"""The words in a scenario's `properties`: a kind stands for all of it; helpers are checked by name."""

from __future__ import annotations

import pytest

from highwater.checker.base.problems import InputError
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.catalogue import load
from highwater.checker.scenarios.request import Overrides, Request

SHRINK = "replication/small-shrink"


def test_helpers_are_checked_where_a_scenario_names_them() -> None:
    helpers = {p.name for p in load("replication").helpers}
    assert helpers
    assert helpers <= set(Request.of(scenario_files.find(SHRINK), Overrides()).properties)
    assert not helpers & set(
        Request.of(scenario_files.find("replication/large-records"), Overrides()).properties
    )


def test_a_property_of_nobody_is_refused() -> None:
    with pytest.raises(InputError, match="watch"):
        Request.of(scenario_files.find(SHRINK), Overrides(properties=("watch",)))
