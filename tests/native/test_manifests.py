"""Manifests with a correct digest and an impossible content give a one-line error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.checker.base.problems import InputError
from highwater.checker.engines.native.checkpoint import MANIFEST
from highwater.model.language import Model
from tests.native.on_disk import Manifest, manifest, part, rewrite
from tests.steps.ledger import ledger
from tests.traces.json_changes import put


@pytest.fixture(scope="module")
def model() -> Model:
    """A small protocol with invariants and step properties."""
    return ledger()


@pytest.fixture
def kept(model: Model, tmp_path: Path) -> Path:
    """A checkpoint in the middle of a search, with a violation of a step property."""
    part(model, "in memory", tmp_path / "kept", 120, resume=False, all_states=True)
    return tmp_path / "kept"


def done(plain: Manifest) -> None:
    """Change the manifest to that of a complete search."""
    plain.update(states=None, visited=[])


def without(kind: str) -> Callable[[Manifest], object]:
    """Remove the entry of a file from the list of files."""
    return lambda plain: plain["files"].pop(next(name for name in plain["files"] if name.startswith(kind)))


SIZE, PREDECESSORS = "levels/-1/0", "levels/-1/1"
"""The entries of the last level."""
OF_A_STEP = "found/one_value_at_a_time/"
VALUES: dict[str, tuple[str, object]] = {
    "steps below zero": ("counts/0", -1),
    "counts of no form": ("counts", None),
    "no levels": ("levels", []),
    "an empty level": (SIZE, 0),
    "more states than there are": (SIZE, 10**12),
    "states in no file": ("states", "states-999999.data"),
    "a violation in no level": (OF_A_STEP + "0", 10**6),
    "a violation by no state": (OF_A_STEP + "1", 10**6),
    "a violation by no step": (OF_A_STEP + "2", len(ledger().instances)),
    "a violation of no property": ("found/none", [0, 0, 0]),
    "a violation by a step of what is no step property": ("found", {"somebody_led": [0, 0, 0]}),
    "a violated state that is none": ("found", {"somebody_led": [0, 10**9]}),
    "a file elsewhere": ("files", {"../../etc/passwd": [0, 0]}),
    "a file without its size": ("files/states-000001.data", [1]),
    "no visited states": ("visited", []),
    "visited states behind their file": ("visited/0/1", 10**9),
}
"""What is wrong → the path of an entry, and its value."""
CHANGES: dict[str, Callable[[Manifest], object]] = {
    "fewer counts than steps": lambda plain: plain["counts"].pop(),
    "one level fewer": lambda plain: plain["levels"].pop(0),
    "a level of no whole number": lambda plain: put(plain, SIZE, float(plain["levels"][-1][0])),
    "a violation by two steps": lambda plain: plain["found"]["one_value_at_a_time"].append(0),
    "no file of visited states": without("visited"),
}


def test_an_unchanged_manifest_is_valid(model: Model, kept: Path) -> None:
    """The unchanged manifest is valid, like that of a complete search; each test below changes one entry."""
    plain = manifest(kept)
    assert plain["found"]
    assert plain["levels"][-1][0] > 1
    rewrite(kept, done)
    found = part(model, "in memory", kept, all_states=True)
    assert found.distinct_states == sum(size for size, _ in plain["levels"])


@pytest.mark.parametrize("wrong", [*VALUES, *CHANGES])
def test_an_impossible_content_is_refused(wrong: str, model: Model, kept: Path) -> None:
    rewrite(kept, CHANGES.get(wrong) or (lambda plain: put(plain, *VALUES[wrong])))
    with pytest.raises(InputError, match=rf"{MANIFEST} is damaged"):
        part(model, "in memory", kept, all_states=True)
