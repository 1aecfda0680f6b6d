"""Violated step properties in checkpoints: reported after a resume; damaged ones are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from highwater.checker.base.problems import InputError
from highwater.checker.engines import native
from highwater.checker.engines.native.checkpoint import MANIFEST
from highwater.checker.report import counterexample
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.model.language import Model
from tests.native.on_disk import assert_same
from tests.steps.ledger import DEPTHS, ledger


def part(model: Model, directory: Path, states: int | None = None, *, resume: bool = True) -> SearchResult:
    options = SearchOptions(
        workers=1, all_states=True, checkpoint=str(directory), resume=resume, limit_states=states
    )
    return native.search(model, options)


def test_earlier_violations_are_reported_after_a_resume(tmp_path: Path) -> None:
    model = ledger()
    whole = native.search(model, SearchOptions(workers=1, all_states=True))
    first = part(model, tmp_path, 80, resume=False)
    assert first.stopped_by == "states"
    assert {v.property for v in first.violations} == {"values_never_fall"}
    assert json.loads((tmp_path / MANIFEST).read_text().split("\n")[0])["broken"]
    found = part(model, tmp_path)
    assert_same(found, whole)
    assert found.violations == whole.violations
    counterexample.follow_all(model, found.violations)
    again = part(model, tmp_path)  # on a complete search
    assert {v.property: v.depth for v in again.violations} == DEPTHS


def test_another_property_is_another_search(tmp_path: Path) -> None:
    part(ledger("values_never_fall"), tmp_path, 40, resume=False)
    with pytest.raises(InputError, match="made with other properties"):
        part(ledger("term_never_falls"), tmp_path)
