"""The checker's protocols by name. Each protocol is imported on first use."""

from __future__ import annotations

import importlib

from highwater.errors import unknown
from highwater.model.language import Protocol
from highwater.model.language.protocol import ChoiceError

NAMES = (
    "promise",
    "quorum",
    "replication",
    "replication.controller",
    "replication.topic",
    "truncation",
    "zookeeper",
)
"""The packages of ``model`` that define a ``PROTOCOL``. Add a new protocol here."""


def protocol_of(name: str) -> type[Protocol]:
    """The protocol class of this name. Raises ChoiceError if there is none."""
    if name not in NAMES:
        raise ChoiceError(unknown("protocol", name, NAMES))
    found: type[Protocol] = importlib.import_module(f"highwater.model.{name}").PROTOCOL
    return found
