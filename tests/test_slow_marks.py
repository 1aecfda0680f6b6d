"""Whoever marks a test as slow says why."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests import conftest
from tests.slow import all_but, slow, without_reason


def item(name: str, *marks: pytest.MarkDecorator) -> Any:
    return SimpleNamespace(nodeid=name, iter_markers=lambda kind: [m.mark for m in marks if m.name == kind])


GOOD = [item("a"), item("b", slow("a whole search of each")), item("c", pytest.mark.skip)]
WRONG = [item("d", pytest.mark.slow), item("e", slow("")), item("f", slow("takes long"))]


def test_marks_without_a_reason_are_found() -> None:
    assert without_reason(GOOD + WRONG) == ["d", "e", "f"]


def test_a_run_with_one_is_refused(pytestconfig: pytest.Config) -> None:
    """So each run of any test asks this of all that were collected."""
    with pytest.raises(pytest.UsageError, match="without a reason: d, e, f; see"):
        conftest.pytest_collection_modifyitems(pytestconfig, GOOD + WRONG)


def test_what_is_quick_is_among_the_names() -> None:
    first, second = all_but({"one"}, ["one", "two"], "a whole search of each")
    assert (first.marks, [m.name for m in second.marks]) == ((), ["slow"])
    with pytest.raises(ValueError, match="no such parameter: three"):
        all_but({"three"}, ["one", "two"], "a whole search of each")
