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


def with_(**entries: object) -> Callable[[Manifest], object]:
    return lambda plain: plain.update(entries)


def of_a_step(place: int, value: object) -> Callable[[Manifest], object]:
    return lambda plain: next(iter(plain["found"].values())).__setitem__(place, value)


def level(place: int, value: object, number: int = -1) -> Callable[[Manifest], object]:
    return lambda plain: plain["levels"][number].__setitem__(place, value)


def without(kind: str) -> Callable[[Manifest], object]:
    """Remove the entry of a file from the list of files."""
    return lambda plain: plain["files"].pop(next(name for name in plain["files"] if name.startswith(kind)))


SIZE, PREDECESSORS = range(2)
"""The entries of a level."""
WRONG: dict[str, Callable[[Manifest], object]] = {
    "steps below zero": lambda plain: plain["counts"].__setitem__(0, -1),
    "cuts below zero": lambda plain: plain["cuts"].__setitem__(0, -1),
    "premises below zero": lambda plain: plain["premises"].__setitem__(0, -1),
    "fewer counts than steps": lambda plain: plain["counts"].pop(),
    "counts of no form": with_(counts=None),
    "seconds of no form": with_(seconds="long"),
    "no levels": with_(levels=[]),
    "levels of no form": with_(levels=[[1]]),
    "one level fewer": lambda plain: plain["levels"].pop(0),
    "an empty level": level(SIZE, 0),
    "a level of no whole number": lambda plain: level(SIZE, float(plain["levels"][-1][SIZE]))(plain),
    "fewer states than there are": level(SIZE, 1),
    "more states than there are": level(SIZE, 10**12),
    "predecessors of another level": lambda plain: level(PREDECESSORS, plain["levels"][0][PREDECESSORS])(
        plain
    ),
    "predecessors in no file": level(PREDECESSORS, "predecessors-999999.data"),
    "states in no file": with_(states="states-999999.data"),
    "states in a file of another kind": lambda plain: plain.update(states=plain["levels"][0][PREDECESSORS]),
    "states of no form": with_(states=[]),
    "a violation in no level": of_a_step(0, 10**6),
    "a violation in a level below zero": of_a_step(0, -1),
    "a violation by no state": of_a_step(1, 10**6),
    "a violation by half a state": of_a_step(1, 0.5),
    "a violation by no step": of_a_step(2, len(ledger().instances)),
    "a violation of no property": lambda plain: plain["found"].update(none=[0, 0, 0]),
    "a violation by a step of what is no step property": with_(found={"somebody_led": [0, 0, 0]}),
    "a violation by two steps": lambda plain: next(iter(plain["found"].values())).append(0),
    "violations of no form": with_(found=[]),
    "a violated state in no level": with_(found={"somebody_led": [999, 0]}),
    "a violated state that is none": with_(found={"somebody_led": [0, 10**9]}),
    "a file elsewhere": with_(files={"../../etc/passwd": [0, 0]}),
    "no files": with_(files={}),
    "no file of states": without("states"),
    "no file of visited states": without("visited"),
    "a file without its size": lambda plain: plain["files"].update({"states-000001.data": [1]}),
    "no visited states": with_(visited=[]),
    "visited states twice": lambda plain: plain["visited"].extend(plain["visited"]),
    "visited states behind their file": lambda plain: plain["visited"][0].__setitem__(1, 10**9),
}


def test_an_unchanged_manifest_is_valid(model: Model, kept: Path) -> None:
    """The unchanged manifest is valid, like that of a complete search; each test below changes one entry."""
    plain = manifest(kept)
    assert plain["found"]
    assert plain["levels"][-1][SIZE] > 1
    rewrite(kept, done)
    found = part(model, "in memory", kept, all_states=True)
    assert found.distinct_states == sum(size for size, _ in plain["levels"])


@pytest.mark.parametrize("wrong", WRONG)
def test_an_impossible_content_is_refused(wrong: str, model: Model, kept: Path) -> None:
    rewrite(kept, WRONG[wrong])
    with pytest.raises(InputError, match=rf"{MANIFEST} is damaged"):
        part(model, "in memory", kept, all_states=True)
