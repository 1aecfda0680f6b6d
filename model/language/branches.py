"""Branches of an action: what it does only where a condition holds, and what it chooses freely.

Both stand inside an action. ``when`` makes writes and guards conditional: there is one step, whose next state
says which branch it took. ``one_of`` makes several steps of one: the action is traced once for each choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from highwater.model.language import graph, mutation, values
from highwater.model.language.errors import fail
from highwater.model.language.tracing import current
from highwater.model.language.types import Type


@contextmanager
def when(condition: values.Truth | bool) -> Iterator[None]:
    """What is written, sent and required inside happens, or is asked, only where the condition holds.

    Two such blocks may write the same field where their conditions exclude each other; where both hold in some state,
    a step from there is an error.
    """
    branches = current("when()").branches
    branches[-1] = None
    with _branch(values.as_bool(condition), "when()"):
        yield


@contextmanager
def otherwise(condition: values.Truth | bool = True) -> Iterator[None]:
    """After ``with when(…):``, what happens where that did not hold, and this condition does: ``elif`` and ``else``.

    LanguageError where no ``with when(…):`` of the same depth comes before.
    """
    if current("otherwise()").branches[-1] is None:
        raise fail("otherwise() follows a `with when(…):` block of the same depth")
    with _branch(values.as_bool(condition), "otherwise()"):
        yield


@contextmanager
def _branch(condition: values.Truth, word: str) -> Iterator[None]:
    trace = current(word)
    values.watched(condition.node)
    node = condition.node
    if mutation.active is not None:
        frame, others = mutation.text_frame(), {"always": graph.TRUE, "never": graph.FALSE}
        wrong = {f"{word.rstrip('()')}: {how}": (lambda n=n: (n,)) for how, n in others.items()}
        (node,) = mutation.active.choose("branch", (node,), wrong, frame)
    outer, earlier = trace.when, trace.branches[-1] or graph.FALSE
    trace.when = graph.all_([outer, graph.not_(earlier), node])
    trace.branches.append(None)
    try:
        yield
    finally:
        trace.branches.pop()
        trace.when = outer
    trace.branches[-1] = graph.or_(earlier, node)


def one_of(name: str, domain: Type | Iterable[Any], /) -> Any:
    """One value of a type or of a list, freely chosen: the action has a step for each.

    The name stands with the action's parameters in what is told of the step. LanguageError where it is the name of
    another choice, where there is nothing to choose from, or where what is being traced is no action.
    """
    trace = current("one_of()")
    if not trace.ends_early:
        raise fail("one_of() stands in an action; a property asks any_of(… for x in …)")
    if not isinstance(name, str):
        raise fail(f'one_of() needs a name first, a text: write one_of("…", …), not {name!r}')
    if trace.when is not graph.TRUE:
        raise fail("one_of() stands outside of `with when(…):`, as it makes several steps of the action")
    if name in (taken for taken, *_ in trace.chosen):
        raise fail(f"there is a choice {name!r} above in this action: write another name")
    try:
        found = list(domain.constants() if isinstance(domain, Type) else domain)
    except TypeError:
        raise fail(f"one_of() chooses from a type or a list, not from {domain!r}") from None
    if not found:
        raise fail(f"one_of({name!r}, …) has nothing to choose from")
    position = len(trace.chosen)
    number = trace.script[position] if position < len(trace.script) else 0
    value = found[number]
    if isinstance(value, values.Value) and not all(n.is_const for n in value.nodes):
        raise fail(
            f"one_of({name!r}, …) chooses from what is known while tracing, not from values of the state"
        )
    plain = value._plain() if isinstance(value, values.Value) else value
    trace.chosen.append((name, plain, number, len(found)))
    return value


def next_script(chosen: list[tuple[str, Any, int, int]]) -> tuple[int, ...] | None:
    """The choices of the run after one with these choices, the last one first to change; None after the last run."""
    numbers = [(number, count) for _, _, number, count in chosen]
    while numbers:
        number, count = numbers.pop()
        if number + 1 < count:
            return (*(n for n, _ in numbers), number + 1)
    return None
