"""Manifests with a correct digest and an impossible content give a one-line error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.base.problems import InputError
from highwater.checker.engines.native import search
from highwater.checker.engines.native.checkpoint import MANIFEST
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.model.language import Model
from tests.native.test_checkpoint import rewritten
from tests.steps.ledger import ledger

Manifest = dict[str, Any]


@pytest.fixture(scope="module")
def model() -> Model:
    """A small protocol with invariants and step properties."""
    return ledger()


def go_on(model: Model, directory: Path, states: int | None = None, *, resume: bool = True) -> SearchResult:
    options = SearchOptions(
        workers=1, checkpoint=str(directory), resume=resume, all_states=True, limit_states=states
    )
    return search(model, options)


@pytest.fixture
def kept(model: Model, tmp_path: Path) -> Path:
    """A checkpoint in the middle of a search, with a violation of a step property."""
    go_on(model, tmp_path / "kept", 120, resume=False)
    return tmp_path / "kept"


def over(plain: Manifest) -> None:
    """Change the manifest to that of a complete search, whose last level is empty."""
    plain.update(
        complete=True, levels=[*plain["levels"], {"size": 0, "predecessors": [], "states": []}], rest=[]
    )


def done(plain: Manifest) -> None:
    """Change the manifest to that of a complete search, without files of states."""
    over(plain)
    plain["visited"] = []
    for level in plain["levels"]:
        level["states"] = []


def left(plain: Manifest) -> None:
    over(plain)
    plain["rest"] = [[0, 1]]


def more(plain: Manifest) -> None:
    done(plain)
    plain["distinct"] += 1


def below_zero(name: str) -> Callable[[Manifest], object]:
    return lambda plain: plain[name].__setitem__(0, -1)


def of_a_step(place: int, value: int) -> Callable[[Manifest], object]:
    return lambda plain: next(iter(plain["broken"].values())).__setitem__(place, value)


def part(kind: str, place: int, value: object) -> Callable[[Manifest], object]:
    return lambda plain: plain["levels"][-1][kind][0].__setitem__(place, value)


FILE, OFFSET, BASE, COUNT = range(4)
WRONG: dict[str, Callable[[Manifest], object]] = {
    "over, with states left": left,
    "over, with more states than there are": more,
    "steps below zero": below_zero("counts"),
    "cuts below zero": below_zero("cuts"),
    "premises below zero": below_zero("premises"),
    "a violation in no level": of_a_step(0, 10**6),
    "a violation by no state": of_a_step(1, 10**6),
    "a violation by no step": of_a_step(2, len(ledger().instances)),
    "a violation of no property": lambda plain: plain["broken"].update(none=[0, 0, 0]),
    "states behind their file": part("states", OFFSET, 1 << 40),
    "states before their file": part("states", OFFSET, -8),
    "predecessors behind their file": part("predecessors", OFFSET, 1 << 40),
    "states that begin elsewhere": part("states", BASE, 1),
    "fewer states than there are": part("states", COUNT, 1),
    "a file that is none of its own": part("states", FILE, "states-999999.data"),
}


def test_an_unchanged_manifest_is_valid(model: Model, kept: Path) -> None:
    """The unchanged manifest is valid, like that of a complete search; each test below changes one entry."""
    plain = json.loads((kept / MANIFEST).read_text().split("\n")[0])
    assert plain["broken"]
    assert plain["levels"][-1]["size"] > 1
    done(plain)
    rewritten(kept, **plain)
    assert go_on(model, kept).distinct_states == plain["distinct"]


@pytest.mark.parametrize("wrong", WRONG)
def test_an_impossible_content_is_refused(wrong: str, model: Model, kept: Path) -> None:
    plain = json.loads((kept / MANIFEST).read_text().split("\n")[0])
    WRONG[wrong](plain)
    rewritten(kept, **plain)
    with pytest.raises(InputError, match=rf"{MANIFEST} is damaged"):
        go_on(model, kept)


def test_leftovers_of_a_killed_process_are_removed_on_resume(model: Model, kept: Path) -> None:
    named = {path.name for path in kept.iterdir()}
    left = kept / "states-000099.data"
    left.write_bytes(b"what was written of the next checkpoint")
    assert go_on(model, kept, 121).stopped_by == "states"
    assert not left.exists()
    assert MANIFEST in named
