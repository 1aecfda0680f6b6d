"""A protocol with a field of each type; checks that an error is one line with its place."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from highwater.model.language import (
    Array,
    Bool,
    Enum,
    Index,
    Int,
    LanguageError,
    Model,
    Option,
    Protocol,
    Seq,
    Set,
    State,
    Struct,
)
from tests.zoo import stepping

Colour = Enum("Colour", "RED GREEN BLUE")
Shape = Enum("Shape", "ROUND SQUARE LONG")


class Base(Protocol):
    """Two fields of most types, to mix up in tests. Initially everything is zero."""

    name = "wrong"

    def define(self) -> Struct:
        self.node, self.disk = Index("node", 3), Index("disk", 3)
        self.pair = Struct("Pair", who=self.node, up=Bool)
        self.other_pair = Struct("OtherPair", who=self.node, up=Bool)
        return Struct(
            "State",
            n=Int(0, 3),
            f=Bool,
            g=Bool,
            node=self.node,
            disk=self.disk,
            colour=Colour,
            shape=Shape,
            s=Set(self.node),
            disks=Set(self.disk),
            row=Array(self.node, Int(0, 3)),
            pairs=Array(self.node, self.pair),
            o=Option(Int(0, 3)),
            negative=Option(Int(-2, 3)),
            parcel=Option(self.pair),
            pair=self.pair,
            other_pair=self.other_pair,
            log=Seq(Int(0, 3), 3),
            logs=Array(self.node, Struct("Log", entries=Seq(Int(0, 3), 2))),
        )


def at_its_place(wrong: LanguageError, stated: Callable[..., object]) -> None:
    """Check that the error is one line whose place is in this function's source."""
    lines, first = inspect.getsourcelines(stated)
    assert "\n" not in str(wrong)
    assert wrong.place is not None, wrong
    file, line = wrong.place.rsplit(":", 1)
    assert inspect.getfile(stated).endswith(file.split("/")[-1]), wrong
    assert first <= int(line) < first + len(lines), wrong


def refused(body: Callable[[Any, State], object], message: str) -> None:
    """Check that an action with this body is refused, with this message at a line of the body."""
    with pytest.raises(LanguageError, match=message) as error:
        Model(stepping(Base, body)())
    at_its_place(error.value, body)
