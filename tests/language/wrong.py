"""A protocol with a field of each type."""

from __future__ import annotations

from highwater.model.language import (
    Array,
    Bool,
    Enum,
    Index,
    Int,
    Option,
    Protocol,
    Seq,
    Set,
    Struct,
)

Colour = Enum("Colour", "RED GREEN BLUE")


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
