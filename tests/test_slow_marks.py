"""A slow mark needs a reason, and tests are grouped by file."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]

from tests import conftest
from tests.slow import slow, without_reason


def item(name: str, *marks: pytest.MarkDecorator) -> Any:
    return SimpleNamespace(nodeid=name, iter_markers=lambda kind: [m.mark for m in marks if m.name == kind])


GOOD = [item("a"), item("b", slow("a whole search of each")), item("c", pytest.mark.skip)]
WRONG = [item("d", pytest.mark.slow), item("e", slow("")), item("f", slow("takes long"))]


def test_marks_without_a_reason_are_found() -> None:
    assert without_reason(GOOD + WRONG) == ["d", "e", "f"]


def test_a_file_runs_in_one_process(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test of APART may run in any process."""
    monkeypatch.setattr("xdist.scheduler.loadscope.parse_tx_spec_config", lambda config: ["popen"])
    scheduler = conftest.pytest_xdist_make_scheduler(pytestconfig, Producer("tests"))
    files = (
        "tests/a.py::test_b[1]",
        "tests/a.py::test_c",
        "tests/spark/test_d.py::test_e",
        "tests/states/f.py::test_g",
    )
    assert [scheduler._split_scope(test) for test in files] == ["tests/a.py", "tests/a.py", "Spark", "Spark"]
    alone = f"{conftest.APART[0]}[one]"
    assert scheduler._split_scope(alone) == alone
