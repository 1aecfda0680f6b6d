"""Models of another revision, rebuilt from their images: any engine reads them as it reads a model traced here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from highwater.model.language import graph, types
from highwater.model.language.graph import Node
from highwater.model.language.liveness import Case, FairGroup, Kind, Liveness, TracedLiveness
from highwater.model.language.model import Instance, Model, Property, state_inputs
from highwater.model.language.protocol import Action, Invariant
from highwater.model.language.step_properties import StepProperty, TracedStepProperty
from highwater.model.language.substitution import made_of
from highwater.model.language.tracing import Check, Guard, Write
from highwater.model.language.types import Struct, Type

Image = Mapping[str, Any]
"""A traced model and its request as plain data, as ``image.py`` writes them."""


class UnknownImageError(ValueError):
    """An image that holds what is not known here: it was written by a revision that is too different."""


class RestoredModel(Model):
    """A model from its image. ``sentences`` has its rules' sources and sentences, ``meanings`` those of its actions."""

    def __init__(self, image: Image, state: Struct | None = None, order: Sequence[int] | None = None):
        """Rebuild it.

        With ``state`` its states are laid out as that type has them: ``order`` gives the new number of each scalar.
        """
        own = _type(image["state"])
        assert isinstance(own, Struct)
        self.own_leaves = own.leaves("")
        self.protocol: Any = SimpleNamespace(name=image["protocol"], state=state or own)
        self.leaves = self.protocol.state.leaves("")
        self.inputs = state_inputs(self.leaves)
        order = range(len(self.own_leaves)) if order is None else order
        inputs = [scalars[i] for scalars in (self.inputs, self.after) for i in order]
        nodes = _nodes(image["nodes"], inputs)
        self.actions = [
            Action(name, _documented(a["meaning"]), {}, a["source"], None, a["says"])
            for name, a in image["actions"].items()
        ]
        actions = {a.name: a for a in self.actions}
        self.instances = [
            Instance(
                actions[i["action"]],
                i["parameters"],
                tuple(Guard(name, nodes[n], place) for name, n, place in i["guards"]),
                {order[leaf]: Write(nodes[n], place) for leaf, n, place in i["writes"]},
                tuple(Check(order[leaf], nodes[n], *rest) for leaf, n, *rest in i["checks"]),
            )
            for i in image["instances"]
        ]
        self.properties = [
            Property(
                Invariant(p["name"], _documented(p["meaning"]), p["source"], goal=p.get("goal", False)),
                nodes[p["node"]],
                nodes[p["premise"]],
            )
            for p in image["properties"]
        ]
        self.step_properties = [
            TracedStepProperty(
                StepProperty(p["name"], _documented(p["meaning"]), p["source"], goal=p.get("goal", False)),
                nodes[p["node"]],
                nodes[p["premise"]],
                frozenset(p["asked"]),
            )
            for p in image.get("step_properties", ())  # which older revisions do not have
        ]
        self.liveness = [
            TracedLiveness(
                Liveness(p["name"], _documented(p["meaning"]), Kind(p["kind"]), p["source"]),
                tuple(
                    Case(nodes[premise], tuple(nodes[goal] for goal in goals), parameters)
                    for premise, goals, parameters in p["cases"]
                ),
                tuple(
                    FairGroup(label, strong, frozenset(own), None if when is None else nodes[when])
                    for label, strong, own, when in p["groups"]
                ),
            )
            for p in image["liveness"]
        ]
        self.bounds = sorted({c.bound for i in self.instances for c in i.checks if c.bound})
        initial = [[0] * len(self.leaves) for _ in image["initial"]]
        for scalars, plain in zip(initial, image["initial"], strict=True):
            for number, value in zip(order, plain, strict=True):
                scalars[number] = value
        self.__dict__["start"] = None
        self.__dict__["initial"] = [tuple(scalars) for scalars in initial]


def _documented(text: str) -> Callable[..., None]:
    """A function that does nothing and says what the one that it stands for says."""

    def function(*arguments: object) -> None:
        raise NotImplementedError("the source of this function is in another revision")

    function.__doc__ = text
    return function


def _nodes(images: Sequence[Sequence[Any]], inputs: Sequence[Node]) -> list[Node]:
    nodes: list[Node] = []
    for op, args, value, sort, _, high in images:
        operands = [nodes[i] for i in args]
        if op == "const":
            nodes.append(graph.const(value, sort))
        elif op == "input":
            nodes.append(inputs[value])
        else:
            try:
                nodes.append(made_of(op, operands, int(high).bit_length()))
            except KeyError:
                raise UnknownImageError(f"the operation {op} is not known") from None
    return nodes


def _type(image: Sequence[Any]) -> Type:
    kind, *rest = image
    match kind:
        case "BoolType":
            return types.Bool
        case "IntType":
            return types.Int(*rest)
        case "Index":
            return types.Index(*rest)
        case "Enum":
            return types.Enum(*rest)
        case "Set":
            return types.Set(_index(rest[0]))
        case "Option":
            return types.Option(_type(rest[0]))
        case "Array":
            return types.Array(_index(rest[0]), _type(rest[1]))
        case "Seq":
            return types.Seq(_type(rest[0]), *rest[1:])
        case "Struct":
            return Struct(rest[0], **{name: _type(inner) for name, inner in rest[1]})
    raise UnknownImageError(f"the type {kind} is not known")


def _index(image: Sequence[Any]) -> types.Index | types.Enum:
    found = _type(image)
    assert isinstance(found, (types.Index, types.Enum))
    return found
