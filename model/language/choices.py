"""One value of several: choices by a condition, conditions joined, the least and the greatest number."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from highwater.model.language import graph, mutation
from highwater.model.language.errors import fail, place
from highwater.model.language.graph import INT, Node
from highwater.model.language.scalars import Number, Truth, Type, Value, as_bool, is_option, lift_like

_watch: ContextVar[Callable[[Node, str | None], None] | None] = ContextVar("watch", default=None)


@contextmanager
def watching(watch: Callable[[Node, str | None], None]) -> Iterator[None]:
    """While inside, ``watch`` is called with the condition of every ``where`` that is traced, and its place."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def watched(condition: Node) -> None:
    """Tell the condition of a branch to who watches."""
    if (watch := _watch.get()) is not None:
        watch(condition, place())


def where(condition: Truth | bool, yes: Any, no: Any) -> Any:
    """``yes`` where the condition holds, else ``no``: the symbolic ``if``. Both must be of one type."""
    condition = as_bool(condition)
    watched(condition.node)
    if not isinstance(yes, Value) and not isinstance(no, Value):
        yes = _plain(yes)
    if is_option(yes) and is_option(no) and yes.type != no.type:
        raise fail(f"where() cannot choose between a {yes.describe()} and a {no.describe()}")
    if not isinstance(yes, Value) or (is_option(no) and not is_option(yes)):
        yes = lift_like(no, yes)
    no = lift_like(yes, no)
    nodes = graph.selected(condition.node, yes.nodes, no.nodes)
    if mutation.active is not None and not condition.node.is_const:
        nodes = mutation.branched(condition.node, nodes, yes.nodes, no.nodes)
    if isinstance(yes, (Truth, Number)):
        return type(yes)(yes.type if yes.type == no.type else None, nodes)
    if yes.type != no.type:
        raise fail(f"where() cannot choose between a {yes.describe()} and a {no.describe()}")
    return yes.type.wrap(nodes)


def cases(*choices: tuple[Truth | bool, Any], otherwise: Any) -> Any:
    """The value beside the first condition that holds, else ``otherwise``: the symbolic ``if … elif … else``."""
    result = _first_that_holds(choices, otherwise)
    if mutation.active is None or not isinstance(result, Value):
        return result
    kind: Any = result.type.wrap if result.type is not None else functools.partial(type(result), None)

    def without(number: int) -> tuple[Node, ...]:
        rest = choices[:number] + choices[number + 1 :]
        return lift_like(result, _first_that_holds(rest, otherwise)).nodes

    others = {f"case {i + 1} dropped": functools.partial(without, i) for i in range(len(choices))}
    return kind(mutation.offered("branch", result.nodes, others))


def _first_that_holds(choices: tuple[tuple[Truth | bool, Any], ...], otherwise: Any) -> Any:
    given = [*(value for _, value in choices), otherwise]
    symbolic = [v for v in given if isinstance(v, Value)]
    options = [v for v in symbolic if is_option(v)]
    result = otherwise
    if symbolic and not isinstance(otherwise, Value):
        result = lift_like((options or symbolic)[0], otherwise)
    for condition, value in reversed(choices):
        result = where(condition, value, result)
    return result


def _plain(value: object) -> Value:
    if isinstance(value, bool):
        return as_bool(value)
    if isinstance(value, int):
        return Number(None, (graph.const(value, INT),))
    raise fail(f"there must be a symbolic value to know the type by, not only {value!r}")


def choose(index: Node, items: list[Any], element: Type) -> Any:
    """The item at a symbolic position; the element type's zero outside."""
    if index.is_const:
        return items[index.value] if 0 <= index.value < len(items) else element.zero()
    exact = index.low >= 0 and index.high < len(items)
    result = items[-1] if exact else element.zero()
    for i in range(len(items) - (2 if exact else 1), -1, -1):
        if index.low <= i <= index.high:
            result = where(Truth(None, (graph.eq(index, graph.const(i, INT)),)), items[i], result)
    return result


def all_of(items: Iterable[Truth | bool]) -> Truth:
    """Whether all hold (true for none)."""
    if mutation.active is None:
        return Truth(None, (graph.all_(as_bool(i).node for i in items),))
    listed, found = isinstance(items, (list, tuple)), tuple(as_bool(i).node for i in items)
    said = (graph.all_(found),)
    if listed:
        return Truth(None, mutation.joined("all of", said, found, graph.all_))
    return Truth(None, mutation.offered("operation", said, {"all of: any of": lambda: (graph.any_(found),)}))


def any_of(items: Iterable[Truth | bool]) -> Truth:
    """Whether at least one holds (false for none)."""
    if mutation.active is None:
        return Truth(None, (graph.any_(as_bool(i).node for i in items),))
    listed, found = isinstance(items, (list, tuple)), tuple(as_bool(i).node for i in items)
    said = (graph.any_(found),)
    if listed:
        return Truth(None, mutation.joined("any of", said, found, graph.any_))
    return Truth(None, mutation.offered("operation", said, {"any of: all of": lambda: (graph.all_(found),)}))


def total(items: Iterable[Truth]) -> Number:
    """How many of the conditions hold."""
    one, zero = graph.const(1, INT), graph.const(0, INT)
    result = zero
    for item in items:
        result = graph.add(result, graph.select(as_bool(item).node, one, zero))
    return Number(None, (result,))


def least(first: Number | int, *others: Number | int) -> Number:
    """The least of some numbers."""
    return _fold("least", graph.min_, first, others)


def greatest(first: Number | int, *others: Number | int) -> Number:
    """The greatest of some numbers."""
    return _fold("greatest", graph.max_, first, others)


def _fold(word: str, op: Any, first: Number | int, others: tuple[Number | int, ...]) -> Number:
    items = [i if isinstance(i, Value) else _plain(i) for i in (first, *others)]
    for item in items:
        if not isinstance(item, Number) or (item.type is not None and not item.type.is_counted):
            raise fail(f"least() and greatest() compare numbers, not {item!r}")
    node = items[0].nodes[0]
    for item in items[1:]:
        lift_like(items[0], item)
        node = mutation.binary(word, op, node, item.nodes[0], depth=3)
    return Number(None, (node,))
