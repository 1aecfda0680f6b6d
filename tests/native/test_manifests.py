"""Manifests with a correct digest and an impossible content give a one-line error."""

from __future__ import annotations

import itertools
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


def over(plain: Manifest) -> None:
    """Change the manifest to that of a complete search, whose last level is empty."""
    plain.update(complete=True, levels=[*plain["levels"], []], rest=[])


def done(plain: Manifest) -> None:
    """Change the manifest to that of a complete search, without files of states."""
    over(plain)
    plain["visited"] = []
    without_states(plain, slice(None))


def left(plain: Manifest) -> None:
    over(plain)
    plain["rest"] = [[0, 1]]


def more(plain: Manifest) -> None:
    done(plain)
    plain["distinct"] += 1


def without_states(plain: Manifest, levels: slice) -> None:
    for chunk in itertools.chain.from_iterable(plain["levels"][levels]):
        del chunk[STATES:]


def rest_without_states(plain: Manifest) -> None:
    without_states(plain, slice(-2, -1))
    plain["rest"] = [[0, 1]]


def with_(**entries: object) -> Callable[[Manifest], object]:
    return lambda plain: plain.update(entries)


def of_a_step(place: int, value: int) -> Callable[[Manifest], object]:
    return lambda plain: next(iter(plain["broken"].values())).__setitem__(place, value)


def chunk(place: int, value: object) -> Callable[[Manifest], object]:
    return lambda plain: plain["levels"][-1][0].__setitem__(place, value)


COUNT, _, PREDECESSORS_AT, STATES, STATES_AT = range(5)
"""The entries of a chunk: file and offset of predecessors and of states."""
WRONG: dict[str, Callable[[Manifest], object]] = {
    "over, with states left": left,
    "over, with more states than there are": more,
    "over, with a level to expand": with_(complete=True),
    "steps below zero": lambda plain: plain["counts"].__setitem__(0, -1),
    "cuts below zero": lambda plain: plain["cuts"].__setitem__(0, -1),
    "premises below zero": lambda plain: plain["premises"].__setitem__(0, -1),
    "fewer counts than steps": lambda plain: plain["counts"].pop(),
    "counts of no form": with_(counts=None),
    "seconds of no form": with_(seconds="long"),
    "another number of states": with_(distinct=7),
    "no levels": with_(levels=[]),
    "a level without chunks": lambda plain: plain["levels"][0].clear(),
    "a chunk without predecessors": lambda plain: plain["levels"][0].append([1]),
    "a level without states": lambda plain: without_states(plain, slice(-1, None)),
    "a level that is expanded in part, without states": rest_without_states,
    "more left of a level than it has": with_(rest=[[0, 10**12]]),
    "a part left that ends before it begins": with_(rest=[[5, 3]]),
    "a violation in no level": of_a_step(0, 10**6),
    "a violation by no state": of_a_step(1, 10**6),
    "a violation by no step": of_a_step(2, len(ledger().instances)),
    "a violation of no property": lambda plain: plain["broken"].update(none=[0, 0, 0]),
    "a violation by a step of what is no step property": with_(broken={"somebody_led": [0, 0, 0]}),
    "violations of no form": with_(broken=[]),
    "a violated state in no level": with_(places={"somebody_led": [999, 0]}),
    "a violated state that is none": with_(places={"somebody_led": [0, 10**9]}),
    "states behind their file": chunk(STATES_AT, 1 << 40),
    "states before their file": chunk(STATES_AT, -8),
    "predecessors behind their file": chunk(PREDECESSORS_AT, 1 << 40),
    "predecessors at no number": chunk(PREDECESSORS_AT, 0.5),
    "fewer states than there are": chunk(COUNT, 1),
    "an empty chunk": chunk(COUNT, 0),
    "a chunk of no whole number": lambda plain: plain["levels"][-1][0].__setitem__(
        COUNT, float(plain["levels"][-1][0][COUNT])
    ),
    "a file that is none of its own": chunk(STATES, "states-999999.data"),
    "a file elsewhere": with_(files={"../../etc/passwd": [0, 0]}),
    "no files": with_(files={}),
    "a file without its size": lambda plain: plain["files"].update({"states-000001.data": [1]}),
    "visited states behind their file": with_(visited=[["visited-000001.data", 10**9]]),
}


def test_an_unchanged_manifest_is_valid(model: Model, kept: Path) -> None:
    """The unchanged manifest is valid, like that of a complete search; each test below changes one entry."""
    plain = manifest(kept)
    assert plain["broken"]
    assert plain["levels"][-1][0][COUNT] > 1
    rewrite(kept, done)
    assert part(model, "in memory", kept, all_states=True).distinct_states == plain["distinct"]


@pytest.mark.parametrize("wrong", WRONG)
def test_an_impossible_content_is_refused(wrong: str, model: Model, kept: Path) -> None:
    rewrite(kept, WRONG[wrong])
    with pytest.raises(InputError, match=rf"{MANIFEST} is damaged"):
        part(model, "in memory", kept, all_states=True)
