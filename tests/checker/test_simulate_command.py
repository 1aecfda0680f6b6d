from __future__ import annotations

from typing import Any

import pytest

from tests.checker.conftest import Write
from tests.command import highwater

REGISTER, HASTY = "docs/examples/register.toml", "docs/examples/register-hasty.toml"
WALKS = ("--walks", 300, "--depth", 20)


@pytest.fixture
def walk() -> Any:
    return lambda *arguments: highwater("simulate", *arguments)


def test_an_expected_violation_is_found(walk: Any) -> None:
    run = walk(HASTY, *WALKS, "--json", "-")
    (result,) = run.results
    assert run.status == 0
    assert (result["verdict"], result["promised"], result["complete"]) == ("violated", True, False)
    (violation,) = result["violations"]
    assert violation["state"]["stored"][violation["state"]["leader"]] < violation["state"]["acknowledged"]


def test_an_unexpected_violation_fails(walk: Any) -> None:
    run = walk(REGISTER, "--rule", "wait_for_all=off", *WALKS)
    assert run.status == 1
    assert "The state that violates no_acknowledged_write_is_lost, as far as" in run.out


def test_walks_without_a_violation_prove_nothing(walk: Any) -> None:
    run = walk(REGISTER, *WALKS, "--json", "-")
    (result,) = run.results
    assert run.status == 0
    assert (result["verdict"], result["promised"], result["complete"]) == ("inconclusive", None, False)
    assert (result["walks"], result["stopped_by"]) == (300, None)
    assert "300 random walks, seed 0: no proof" in walk(REGISTER, *WALKS).out


def test_a_limit_makes_it_inconclusive(walk: Any) -> None:
    options = ("--walks", 10**9, "--limit-seconds", 0.2)
    run = walk(REGISTER, *options, "--json", "-")
    assert run.status == 3
    assert run.results[0]["stopped_by"] == "seconds"
    assert 0 < run.results[0]["walks"] < 10**9


def test_a_deadlock_is_found(walk: Any, counter: Write) -> None:
    run = walk(counter(), "--deadlock", *WALKS, "--json", "-")
    assert run.status == 1
    assert run.results[0]["violations"][0]["property"] == "deadlock"
    assert run.results[0]["violations"][0]["depth"] == 6


def test_a_depth_is_not_passed(walk: Any, counter: Write) -> None:
    run = walk(counter(), "--walks", 3, "--depth", 4, "--json", "-")
    (result,) = run.results
    assert (result["depth"], result["generated_states"], result["actions"]["increase"]) == (4, 12, 9)
    (result,) = walk(counter(), "--walks", 3, "--depth", 1, "--json", "-").results
    assert (result["depth"], result["generated_states"], result["actions"]["increase"]) == (1, 3, 0)


def test_the_same_seed_makes_the_same_walks(walk: Any) -> None:
    def result(seed: int) -> Any:
        options = ("--walks", 40, "--seed", seed, "--json", "-")
        found = walk("truncation/kip-320", *options).results[0]
        return {key: found[key] for key in ("generated_states", "depth", "actions", "cut", "premises")}

    assert result(7) == result(7)
    assert result(7) != result(8)
