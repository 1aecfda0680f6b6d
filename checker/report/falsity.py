"""The part of a property that makes it false in a state, found by the property's expression graph.

A false conjunction is false by its false conjuncts, a false disjunction by all of its disjuncts. The innermost parts
are comparisons, which are written with the paths of the state's scalars. Array accesses and conditional expressions
are resolved by the values of the state, so only the branch that applies is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from highwater.checker.base.text import at, say
from highwater.model.language import Model, Option, Seq, graph
from highwater.model.language.graph import Node, values_of, where_defined
from highwater.model.language.initial import Scalars
from highwater.model.language.messages import MessageKind
from highwater.model.language.types import Type

_DEEP = 14
"""At most this many nested connectives are followed; below them an expression is written whole."""
_SEVERAL = 8
"""At most this many parts of a conjunction or disjunction are written."""
_LONG, _WIDE = 400, 60
"""An expression is written with at most this many characters and operations."""
_NEGATED = {"eq": "!=", "lt": ">="}


@dataclass(frozen=True)
class PropertyPart:
    """A part of a property: its expression, its value, and the values of the scalars in it.

    ``parts`` are the inner parts that decide the value, and ``says`` is the text before them. A part that is
    ``given`` is a premise.
    """

    says: str = ""
    text: str = ""
    holds: bool = False
    values: tuple[tuple[str, str], ...] = ()
    parts: tuple[PropertyPart, ...] = ()
    given: bool = False

    def leaves(self, given: bool = False) -> Iterator[tuple[PropertyPart, bool]]:
        """The innermost parts, each with True if it is in a premise."""
        given = given or self.given
        if not self.parts:
            yield self, given
        for part in self.parts:
            yield from part.leaves(given)


def false_part(model: Model, node: Node, *states: Scalars) -> PropertyPart | None:
    """The part of a condition that makes it false in a state, or in the two states of a step.

    An undefined condition counts as false. None if the condition is true.
    """
    found = _Explanation(model, node, states)
    return None if found.value(node) and found.value(where_defined(node)) else found.why(node, False, _DEEP)


class _Explanation:
    """The values of a condition's expressions in one state, or in the two states of a step."""

    def __init__(self, model: Model, root: Node, states: Sequence[Scalars]) -> None:
        self._type, self._leaves, self._of_step = model.protocol.state, model.leaves, len(states) > 1
        self._budget = _WIDE
        nodes = graph.reachable([root, where_defined(root)])
        found = values_of(nodes, [scalar for state in states for scalar in state])
        self._values = {node.id: int(value) for node, value in zip(nodes, found, strict=True)}

    def value(self, node: Node) -> int:
        """The value of an expression in the state or step."""
        return node.value if node.is_const else self._values[node.id]

    def why(self, node: Node, value: bool, deep: int) -> PropertyPart:
        """The part that explains why a condition is ``value``, True or False; ``deep`` limits the nesting of parts."""
        if node.op == "not" and node.args[0].op not in _NEGATED:
            return self.why(node.args[0], not value, deep)
        if deep and node.op == "select":
            condition, *branches = node.args
            chosen = branches[not self.value(condition)]
            where = replace(self._leaf(condition, bool(self.value(condition))), says="where", given=True)
            return PropertyPart(holds=value, parts=(where, self.why(chosen, value, deep - 1)))
        if not deep or node.op not in ("and", "or"):
            return self._leaf(node, value)
        decisive = [part for part in _operands(node, node.op) if bool(self.value(part)) is value]
        if value and node.op == "or":  # one of them is enough
            return self.why(decisive[0], value, deep - 1)
        # A false (not a or b) is an implication: a is given, and b is what is false.
        rest = [part for part in decisive if value or node.op == "and" or part.op != "not"]
        rest = rest or [part for part in decisive if part.args[0].op in _NEGATED]
        if not rest or len(rest) == len(decisive):
            return self._several(decisive, value, deep)
        premises = [part.args[0] for part in decisive if part not in rest]
        given = [replace(self.why(part, True, 2), given=True) for part in premises[:_SEVERAL]]
        return PropertyPart(
            "where it should be true:", holds=value, parts=(*given, self._several(rest, value, deep))
        )

    def _several(self, nodes: Sequence[Node], value: bool, deep: int) -> PropertyPart:
        parts = tuple(self.why(node, value, deep - 1) for node in nodes[:_SEVERAL])
        if len(parts) == 1:
            return parts[0]
        more = f", and {len(nodes) - _SEVERAL} more" if len(nodes) > _SEVERAL else ""
        return PropertyPart(
            f"{'all of these hold' if value else 'these are false'}{more}:", "", value, (), parts
        )

    def _leaf(self, node: Node, value: bool) -> PropertyPart:
        shown: dict[str, str] = {}
        self._budget = _WIDE
        text = self._text(node, shown)
        shown.pop(text, None)
        return PropertyPart("", _short(text), value, tuple(list(shown.items())[:_SEVERAL]))

    # --- expressions in words -----------------------------------------------------------------------------

    def _text(self, node: Node, shown: dict[str, str]) -> str:
        """An expression as text; the values of the scalars in it are added to ``shown``."""
        self._budget -= 1
        if self._budget < 0:
            return "…"
        if node.op == "input":
            path = self._path(node)
            shown[path] = self._value_text(node, self.value(node))
            return path
        if node.is_const or (node.op == "singleton" and node.args[0].is_const):
            return _plain(node, self.value(node))
        if node.op == "select":
            condition, *branches = node.args
            indices: dict[str, str] = {}
            self._text(condition, indices)
            text = self._text(branches[not self.value(condition)], shown)
            shown.update(indices)
            return text
        if node.op == "not":
            return self._negation(node.args[0], shown)
        if node.op in ("and", "or"):
            return f" {node.op} ".join(self._inner(part, shown) for part in _operands(node, node.op))
        if node.op == "member":
            return f"{self._inner(node.args[1], shown)}.has({self._text(node.args[0], shown)})"
        if sign := graph.OPERATIONS[node.op].sign:  # the budget ends an expression before it gets large
            left, right = self._sides(node, shown)
            if self._is_fixed(node):
                return _plain(node, self.value(node))
            return f"{left} {sign} {right}"
        return f"{node.op}({', '.join(self._text(part, shown) for part in node.args)})"

    def _negation(self, node: Node, shown: dict[str, str]) -> str:
        if node.op in ("eq", "lt"):
            left, right = self._sides(node, shown)
            return f"{left} {_NEGATED[node.op]} {right}"
        return f"not {self._inner(node, shown)}"

    def _inner(self, node: Node, shown: dict[str, str]) -> str:
        text = self._text(node, shown)
        return f"({text})" if " " in text and not text.endswith(")") else text

    def _sides(self, node: Node, shown: dict[str, str]) -> tuple[str, str]:
        """Both operands as text. A constant beside a scalar of the state is written as a value of the scalar's type."""
        sides = [self._resolved(part) for part in node.args]
        bare = node.op in _NEGATED and not {"and", "or", *_NEGATED} & {part.op for part in sides}
        texts = [(self._text if bare else self._inner)(part, shown) for part in node.args]
        for i, (own, other) in enumerate(zip(sides, reversed(sides), strict=True)):
            if own.is_const and other.op == "input":
                texts[i] = self._value_text(other, own.value)
        if node.op == "eq" and sides[0].is_const:
            texts.reverse()
        return texts[0], texts[1]

    def _resolved(self, node: Node) -> Node:
        """The branch of a conditional expression that applies in this state; any other expression unchanged."""
        while node.op == "select":
            node = node.args[1] if self.value(node.args[0]) else node.args[2]
        return node

    def _is_fixed(self, node: Node) -> bool:
        """True if an expression, with its conditional expressions resolved, reads no scalar of the state."""
        node = self._resolved(node)
        return node.is_const or (node.op != "input" and all(map(self._is_fixed, node.args)))

    def _path(self, node: Node) -> str:
        path = self._leaves[node.value % len(self._leaves)].path
        if not self._of_step:
            return path
        return f"{'after' if node.value >= len(self._leaves) else 'before'}.{path}"

    def _value_text(self, node: Node, value: int) -> str:
        """The value of a scalar of the state as text, according to the scalar's type."""
        path = self._leaves[node.value % len(self._leaves)].path
        if node.sort == graph.BOOL or path.endswith(".length"):
            return _plain(node, value)
        type_: Type | None = at(self._type, path)
        if isinstance(type_, Option) and len(type_.leaves("")) > 1:
            type_ = type_.content_type
        if isinstance(type_, MessageKind | Seq) or type_ is None or len(type_.leaves("")) != 1:
            return _plain(node, value)
        return say(type_, type_.decode([value]))


def _operands(node: Node, op: str) -> list[Node]:
    """The operands of a chain of one operation ``op``, each once, in the order of their creation."""
    found: dict[int, Node] = {}
    left = [node]
    while left:
        part = left.pop()
        if part.op == op:
            left += part.args
        else:
            found.setdefault(part.id, part)
    return [found[number] for number in sorted(found)]


def _plain(node: Node, value: int) -> str:
    if node.sort == graph.BOOL:
        return "true" if value else "false"
    if node.sort == graph.BITS:
        return "{" + ",".join(str(i) for i in range(value.bit_length()) if value >> i & 1) + "}"
    return str(value)


def _short(text: str) -> str:
    return text if len(text) <= _LONG else text[: _LONG - 1] + "…"
