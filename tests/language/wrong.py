"""Protocols that are wrong in one place: what tests of the language's errors are about."""

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
    """A field of each type; what is wrong is one action, ``body``."""

    name = "wrong"
    body: Callable[[Any, State], object]

    def define(self) -> Struct:
        """Two of most types, so that they can be mixed up."""
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

    def initial(self) -> list[dict[str, Any]]:
        """Everything is zero."""
        return [
            self.state.decode(
                [max(0, leaf.low) if "?" not in leaf.path else 0 for leaf in self.state.leaves("")]
            )
        ]


def refused(body: Callable[[Any, State], object], message: str) -> None:
    """The action is refused with one line: a place in the function's own source, and this message."""
    lines, first = inspect.getsourcelines(body)
    with pytest.raises(LanguageError, match=message) as error:
        Model(stepping(Base, body)())
    assert "\n" not in str(error.value)
    assert error.value.place is not None
    file, line = error.value.place.rsplit(":", 1)
    assert inspect.getfile(body).endswith(file.split("/")[-1]), str(error.value)
    assert first <= int(line) < first + len(lines)
