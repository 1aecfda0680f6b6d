"""The words in a scenario's `properties`: what is proved together with the others, and what only explorations ask."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from highwater.checker.asking import scenarios
from highwater.checker.asking.catalogue import load
from highwater.checker.asking.request import Overrides, Request
from highwater.checker.base.problems import InputError

SHRINK = "replication/small-shrink"


def test_the_words_stand_for_what_is_stated() -> None:
    definition = load("replication")
    asked = set(Request.of(scenarios.find(SHRINK), Overrides()).properties)
    assert {p.name for p in (*definition.helpers, *definition.watched)} <= asked
    assert definition.watched


def test_without_a_word_neither_is_asked() -> None:
    definition = load("replication")
    asked = set(Request.of(scenarios.find("replication/standard-records"), Overrides()).properties)
    assert not {p.name for p in (*definition.helpers, *definition.watched)} & asked


def test_one_of_them_can_be_named_and_violated(tmp_path: Path) -> None:
    """A fetch of a former life is answered: nothing is lost in so small a scenario, and what is watched tells."""
    file = tmp_path / "stale.toml"
    source = Path(scenarios.__file__).parents[2] / "model/replication/scenarios/small-late-fetches.toml"
    table = tomllib.loads(source.read_text(encoding="utf-8"))
    settings = "\n".join(f"{key} = {value}" for key, value in table["parameters"].items())
    file.write_text(
        'protocol = "replication"\nprofile = "kip_966"\nproperties = ["fetches_are_answered_by_their_leader"]\n'
        f"[parameters]\n{settings}\n[rules]\nstale_fetch_check = false\n"
        '[expect]\nviolated = ["fetches_are_answered_by_their_leader"]\n',
        encoding="utf-8",
    )
    from highwater.checker.api.asked import check

    found = check(str(file))
    assert [v.name for v in found.violations] == ["fetches_are_answered_by_their_leader"]


def test_a_property_of_nobody_is_refused() -> None:
    with pytest.raises(InputError, match="watch"):
        Request.of(scenarios.find(SHRINK), Overrides(properties=("watch",)))
