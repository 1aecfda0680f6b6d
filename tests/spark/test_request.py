"""The request that a worker gets is enough to trace the model again."""

from __future__ import annotations

import pytest

from highwater.checker.engines.spark.request import ModelRequest
from highwater.model import registry
from highwater.model.language.model import Model


@pytest.mark.parametrize("name", ["promise", "replication.controller"])
def test_a_worker_finds_the_protocol_by_its_name(name: str) -> None:
    """The protocol may be defined in a module below its package."""
    model = Model(registry.protocol_of(name)({}, ()), ())
    asked = ModelRequest.read(ModelRequest.of(model, False, False).text())
    assert (asked.protocol, asked.source) == (name, None)
    assert type(asked.model().protocol) is registry.protocol_of(name)
