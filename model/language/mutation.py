"""Mutants: versions of an action's graph in which one operation of its source is replaced.

While an action is traced with mutants, each operation in the protocol's source becomes a choice between the operation
and its replacements. The *selector*, an additional input of the graph, chooses by a mutant's number; 0 chooses the
original operation. A mutant belongs to one place in the source, so it changes every instance whose trace passes that
place. Operations inside ``model.language`` have no mutants.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType

from highwater.model.language import graph
from highwater.model.language.errors import _HERE, shortened
from highwater.model.language.graph import BITS, BOOL, INT, Node

MOST = 1 << 16
"""An upper bound on the number of mutants of a model."""
Nodes = tuple[Node, ...]
Others = Mapping[str, Callable[[], Nodes]]
"""The replacements of an operation: name of the change to a function that returns the resulting scalars."""


@dataclass(frozen=True)
class Mutant:
    """A mutant: the place of an operation in the source, and the change there.

    * ``place``: the ``file:line`` where the operation starts; ``last``: its last line.
    * ``columns``: the operation's start in the first line, and its end in the last line.
    * ``within``: the function that contains the operation.
    * ``kind``: guard, check, write, branch or operation.
    * ``change``: the replacement.
    * ``name``: the name of the guard or check; in a loop, several names can have one place.
    """

    place: str
    last: int
    columns: tuple[int, int]
    within: str
    kind: str
    change: str
    name: str = field(default="", compare=False)
    path: str = field(default="", compare=False)
    """The full path of the file."""


class Mutants:
    """Collects mutants while actions are traced, and numbers the mutants from 1.

    ``selector`` is the node that chooses a mutant. With ``constants``, operations with a constant result have mutants,
    too.
    """

    def __init__(self, selector: Node) -> None:
        self.selector = selector
        self.numbers: dict[Mutant, int] = {}
        self.constants = True
        self._positions: dict[CodeType, list[tuple[int | None, ...]]] = {}

    @contextmanager
    def applied(self) -> Iterator[None]:
        """A context in which operations are traced with their mutants."""
        global active
        before, active = active, self
        try:
            yield
        finally:
            active = before

    def choose(
        self, kind: str, result: Nodes, others: Others, frame: FrameType, name: str = "", always: bool = False
    ) -> Nodes:
        """The selector's choice between the result ``result`` of an operation and the results of its replacements.

        Each replacement that changes the result gets a number, as a mutant. A constant result is replaced by another
        constant only with ``always``, because a Python ``if`` may depend on it. Operations outside a protocol's source
        have no mutants. ``kind`` and ``name`` are fields of the ``Mutant``; ``frame`` is its place in the source.
        """
        known = all(n.is_const for n in result)
        if (known and not self.constants) or not _is_text(frame):
            return result
        original = result
        for change, other in others.items():
            wrong = other()
            if all(a is b for a, b in zip(wrong, original, strict=True)):
                continue
            if known and not always and all(n.is_const for n in wrong):
                continue
            number = self._number(frame, kind, change, name)
            selected = graph.eq(self.selector, graph.const(number, INT))
            result = tuple(
                a if b is m else graph.select(selected, b, a)
                for a, b, m in zip(result, wrong, original, strict=True)
            )
        return result

    def _number(self, frame: FrameType, kind: str, change: str, name: str) -> int:
        code = frame.f_code
        if code not in self._positions:
            self._positions[code] = list(code.co_positions())
        line, last, first, end = self._positions[code][frame.f_lasti // 2]
        line = line or frame.f_lineno
        mutant = Mutant(
            shortened(f"{code.co_filename}:{line}") or "",
            last or line,
            (first or 0, end or 0),
            code.co_qualname.replace(".<locals>", ""),
            kind,
            change,
            name,
            code.co_filename,
        )
        number = self.numbers.setdefault(mutant, len(self.numbers) + 1)
        assert number < MOST
        return number


active: Mutants | None = None
"""Collects the mutants of the action that is being traced; None while tracing without mutants."""


def _is_text(frame: FrameType) -> bool:
    """True if the frame is in a protocol's source file, not in ``model.language``."""
    return not frame.f_code.co_filename.startswith((_HERE, "<"))


def text_frame() -> FrameType:
    """The innermost frame in the protocol's source."""
    frame = sys._getframe(1)
    while frame.f_back and (not _is_text(frame) or "/contextlib.py" in frame.f_code.co_filename):
        frame = frame.f_back
    return frame


# --- operations of two operands -----------------------------------------------------------------------------

Binary = Callable[[Node, Node], Node]


def _left(a: Node, b: Node) -> Node:
    return a


def _right(a: Node, b: Node) -> Node:
    return b


def greater(a: Node, b: Node) -> Node:
    """True if ``a`` is greater than ``b``, for ints."""
    return graph.lt(b, a)


def greater_or_equal(a: Node, b: Node) -> Node:
    """True if ``a`` is at least ``b``, for ints."""
    return graph.le(b, a)


def subset(a: Node, b: Node) -> Node:
    """True if ``a`` is a subset of ``b``."""
    return graph.eq(graph.difference(a, b), graph.const(0, BITS))


_OTHERS: dict[str, dict[str, Binary]] = {
    "and": {"left only": _left, "right only": _right},
    "or": {"left only": _left, "right only": _right},
    "<": {"<=": graph.le},
    "<=": {"<": graph.lt},
    ">": {">=": greater_or_equal},
    ">=": {">": greater},
    "set -": {"left only": _left, "&": graph.intersection},
    "+": {"left only": _left},
    "-": {"left only": _left},
    "*": {"left only": _left},
    "|": {"&": graph.intersection, "left only": _left, "right only": _right},
    "&": {"|": graph.union, "left only": _left, "right only": _right},
    "without": {"left only": _left},
    "subset": {"superset": lambda a, b: subset(b, a)},
    "with_": {"left only": _left},
    "least": {"greatest": graph.max_, "first only": _left, "rest only": _right},
    "greatest": {"least": graph.min_, "first only": _left, "rest only": _right},
}
"""For each operation, by symbol, its replacements."""
_ORDERED: dict[str, dict[str, Binary]] = {
    "==": {">=": greater_or_equal, "<=": graph.le},
    "!=": {">": greater, "<": graph.lt},
}


def binary(sign: str, operation: Binary, a: Node, b: Node, depth: int = 2) -> Node:
    """The result of ``operation`` on two scalars, with the mutants of the operator ``sign``.

    The protocol's source is ``depth`` frames above this function's frame.
    """
    result = operation(a, b)
    if active is None:
        return result
    others = _all_others(sign.removeprefix("set "), _OTHERS[sign], a, b)
    return active.choose("operation", (result,), others, sys._getframe(depth))[0]


def _all_others(
    sign: str, operations: Mapping[str, Binary], a: Node, b: Node
) -> dict[str, Callable[[], Nodes]]:
    def other(operation: Binary) -> Nodes:
        return (operation(a, b),)

    return {f"{sign}: {change}": functools.partial(other, o) for change, o in operations.items()}


def compared(sign: str, result: Nodes, a: Nodes, b: Nodes, *, ordered: bool) -> Nodes:
    """The result ``result`` of ``==`` or ``!=`` on two values, with its mutants.

    With ``ordered`` the values are numbers, and mutants also replace the operator by ``<=``, ``>=``, ``<`` or ``>``.
    """
    assert active is not None
    others: dict[str, Callable[[], Nodes]] = {
        f"{sign}: {'!=' if sign == '==' else '=='}": lambda: (graph.not_(result[0]),)
    }
    if ordered:
        others |= _all_others(sign, _ORDERED[sign], a[0], b[0])
    return active.choose("operation", result, others, sys._getframe(3))


def joined(word: str, result: Nodes, parts: Nodes, join: Callable[[Nodes], Node], depth: int = 2) -> Nodes:
    """The result ``result`` of ``join`` on the conditions ``parts``; each mutant drops one condition.

    ``word`` names the operation in the mutants. A single condition has no mutants. ``binary`` explains ``depth``.
    """
    if active is None:
        return result
    others = {
        f"{word}: {i + 1} dropped": (lambda i=i: (join((*parts[:i], *parts[i + 1 :])),))
        for i in range(len(parts) if len(parts) > 1 else 0)
    }
    return active.choose("operation", result, others, sys._getframe(depth))


def branched(condition: Node, result: Nodes, yes: Nodes, no: Nodes) -> Nodes:
    """The result ``result`` of ``where``, with mutants that always return one value or swap the two values."""
    assert active is not None

    def swapped() -> Nodes:
        return tuple(graph.select(condition, b, a) for a, b in zip(yes, no, strict=True))

    others: Others = {"where: always": lambda: yes, "where: never": lambda: no, "where: swapped": swapped}
    return active.choose("branch", result, others, sys._getframe(2))


def replaced(after: Nodes, before: Nodes, places: Mapping[str, slice]) -> Nodes:
    """The result ``after`` of a struct's ``replace``; each mutant leaves one field as in ``before``."""
    assert active is not None

    def without(place: slice) -> Nodes:
        return (*after[: place.start], *before[place], *after[place.stop :])

    others = {f"{name}= dropped": (lambda p=place: without(p)) for name, place in places.items()}
    return active.choose("write", after, others, sys._getframe(2))


def changed(sign: str, result: Nodes, before: Nodes, depth: int = 2) -> Nodes:
    """The result ``result`` of the method named ``sign``, which makes a changed copy of a value.

    The mutant returns ``before``, the unchanged value. ``binary`` explains ``depth``.
    """
    return offered("operation", result, {f"{sign}: dropped": lambda: before}, depth + 1)


def offered(kind: str, result: Nodes, others: Others, depth: int = 2) -> Nodes:
    """The result ``result`` of an operation, with the replacements ``others`` as mutants of this kind."""
    if active is None:
        return result
    return active.choose(kind, result, others, sys._getframe(depth))


def condition(kind: str, name: str, result: Node, frame: FrameType) -> Node:
    """The condition of a named guard or check, with mutants that drop or negate it."""
    assert active is not None
    assert result.sort == BOOL
    others: Others = {"dropped": lambda: (graph.TRUE,), "negated": lambda: (graph.not_(result),)}
    return active.choose(kind, (result,), others, frame, name, always=kind == "guard")[0]


def written(new: Node, before: Node, frame: FrameType) -> Node:
    """The value that a step writes into a scalar; its mutant keeps the scalar's old value."""
    assert active is not None
    return active.choose("write", (new,), {"dropped": lambda: (before,)}, frame, always=True)[0]
