"""A slow mark needs a reason, and tests are grouped by file."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]

from tests import conftest
from tests.slow import WHOLE, all_but, is_whole, largest, often, slow, without_reason


def item(name: str, *marks: pytest.MarkDecorator) -> Any:
    return SimpleNamespace(nodeid=name, iter_markers=lambda kind: [m.mark for m in marks if m.name == kind])


GOOD = [item("a"), item("b", slow("a whole search of each")), item("c", pytest.mark.skip)]
WRONG = [item("d", pytest.mark.slow), item("e", slow("")), item("f", slow("takes long"))]


def test_marks_without_a_reason_are_found() -> None:
    assert without_reason(GOOD + WRONG) == ["d", "e", "f"]


def test_a_run_with_one_is_refused(pytestconfig: pytest.Config) -> None:
    with pytest.raises(pytest.UsageError, match="without a reason: d, e, f; see"):
        conftest.pytest_collection_modifyitems(pytestconfig, GOOD + WRONG)


def test_the_largest_tests_run_only_on_request() -> None:
    marks = {mark.name: mark for mark in largest("a whole search of each")}
    assert marks["skipif"].args == (not WHOLE,)
    assert without_reason([item("one", marks["slow"])]) == []
    assert often(5, 20) == (20 if WHOLE else 5)
    assert (is_whole(""), is_whole("whole")) == (False, True)
    with pytest.raises(pytest.UsageError, match="HIGHWATER_TESTS is 'all'"):
        is_whole("all")


def test_quick_parameters_must_be_among_the_names() -> None:
    first, second = all_but({"one"}, ["one", "two"], "a whole search of each")
    assert (first.marks, [m.name for m in second.marks]) == ((), ["slow"])
    with pytest.raises(ValueError, match="no such parameter: three"):
        all_but({"three"}, ["one", "two"], "a whole search of each")


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
