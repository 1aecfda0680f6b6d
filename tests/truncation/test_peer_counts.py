"""The model's counts equal TLC's for the published specification's modules.

The file of TLC's counts is beside the repository. A row has a module, constants, an invariant, and, for a
complete search, the numbers of states and levels.
"""

from __future__ import annotations

import csv
from typing import Any

import pytest

from highwater.checker.engines import by_name as engines
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.scenario_files import find
from highwater.checker.scenarios.search import SearchOptions
from tests import recordings
from tests.slow import slow

PEER = recordings.folder("peers") / "tlc.csv"
SCENARIOS = {
    "KafkaTruncateToHighWatermark": "truncation/truncate-to-hwm",
    "Kip101": "truncation/kip-101",
    "Kip279": "truncation/kip-279",
    "Kip320FirstTry": "truncation/kip-320-first-try",
    "Kip320": "truncation/kip-320",
}
INVARIANTS = {"WeakIsr": "weak_isr", "StrongIsr": "strong_isr"}
PARAMETERS = ("replicas", "log_size", "max_records", "max_leader_epoch")


LARGE = slow("the interpreter is slow for so many states; the native engine has the same row")


def rows() -> Any:
    if not PEER.is_file():
        return [
            pytest.param(
                None, None, marks=pytest.mark.skip("shared/peers/tlc.csv is not beside the repository")
            )
        ]
    found = []
    with PEER.open(newline="") as file:
        for row in csv.DictReader(file):
            for engine in ("native", "interpreter"):
                large = engine == "interpreter" and row["module"] != "KafkaTruncateToHighWatermark"
                name = "-".join([row["module"], *(row[p] for p in PARAMETERS), row["invariant"], engine])
                found.append(pytest.param(row, engine, id=name, marks=[LARGE] if large else []))
    return found


@pytest.mark.parametrize(("row", "engine"), rows())
def test_peer(row: Any, engine: str) -> None:
    name = INVARIANTS[row["invariant"]]
    overrides = Overrides.parse([f"{p}={row[p]}" for p in PARAMETERS], properties=[name])
    model = Request.of(find(SCENARIOS[row["module"]]), overrides).model()
    result = engines.search(engine)(model, SearchOptions(), None)
    assert [v.property for v in result.violations] == ([name] if row["result"] == "violated" else [])
    if row["distinct"]:
        assert (result.distinct_states, result.depth) == (int(row["distinct"]), int(row["depth"]))
        assert result.complete
