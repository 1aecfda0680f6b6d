"""Violated step properties in checkpoints: reported after a resume; damaged ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.checker.base.problems import InputError
from highwater.checker.engines import native
from highwater.checker.report import counterexample
from highwater.checker.scenarios.search import SearchOptions
from tests.native.on_disk import assert_same, manifest, part
from tests.steps.ledger import DEPTHS, ledger


def test_earlier_violations_are_reported_after_a_resume(tmp_path: Path) -> None:
    model = ledger()
    whole = native.search(model, SearchOptions(workers=1, all_states=True))
    first = part(model, "in memory", tmp_path, 80, resume=False, all_states=True)
    assert first.stopped_by == "states"
    assert {v.property for v in first.violations} == {"values_never_fall"}
    assert manifest(tmp_path)["found"]
    found = part(model, "in memory", tmp_path, all_states=True)
    assert_same(found, whole)
    assert found.violations == whole.violations
    counterexample.follow_all(model, found.violations)
    again = part(model, "in memory", tmp_path, all_states=True)  # on a complete search
    assert {v.property: v.depth for v in again.violations} == DEPTHS


def test_another_property_is_another_search(tmp_path: Path) -> None:
    part(ledger("values_never_fall"), "in memory", tmp_path, 40, resume=False)
    with pytest.raises(InputError, match="made with other properties"):
        part(ledger("term_never_falls"), "in memory", tmp_path)
