from __future__ import annotations

import pytest

from tests.gate.planted import CHANGES, Change, Scratch
from tests.slow import slow


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    return Scratch(tmp_path_factory.mktemp("planted") / "tree")


@slow("runs the gate over a copy of the tree for each change; fast tests have a few")
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_the_gate_reports_the_change(scratch: Scratch, change: Change) -> None:
    status, said, result = scratch.say(change)
    assert (status == 0) == change.passes, said
    assert status in (0, 1)
    for text in change.says:
        assert text in said
    assert not change.passes or "different" not in said
    assert any(e["state"] == "same" for e in result["entries"])
