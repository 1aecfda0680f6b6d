"""The request that a worker gets is enough to trace the model again."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.checker.engines.spark.request import ModelRequest
from highwater.model import registry
from highwater.model.language.model import Model
from tests.checker.conftest import COUNTER
from tests.spark.conftest import scenario


@pytest.mark.parametrize("name", ["promise", "replication.controller"])
def test_a_worker_finds_the_protocol_by_its_name(name: str) -> None:
    """The protocol may be defined in a module below its package."""
    model = Model(registry.protocol_of(name)({}, ()), ())
    asked = ModelRequest.read(ModelRequest.of(model, False, False).text())
    assert (asked.protocol, asked.source) == (name, None)
    assert type(asked.model().protocol) is registry.protocol_of(name)


def test_a_worker_gets_the_text_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "counter.py").write_text(COUNTER)
    (tmp_path / "counter.toml").write_text('protocol = "counter.py"\nprofile = "plain"\n')
    model, _ = scenario(str(tmp_path / "counter.toml"))
    asked = ModelRequest.read(ModelRequest.of(model, False, True).text())
    assert (asked.protocol, asked.source) == ("counter.py", COUNTER)
    again = asked.model()
    assert list(map(str, again.instances)) == list(map(str, model.instances))
    assert again.safety == model.safety
