"""Tracing: run a protocol's function once on symbolic values and record guards, writes and checks.

While a function is traced, ``require`` and ``implies`` add to the current trace, and ``s.next`` (``state``) records
writes.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from highwater.model.language import any_size, graph, mutation
from highwater.model.language.declarations import LIMIT, Named, check_domain, refuse_exits, too_many
from highwater.model.language.errors import LanguageError, fail, meant, place, place_of
from highwater.model.language.graph import (
    Node,
    conjuncts,
    contradict,
    place_in,
    undefined,
    undefined_any,
    where_defined,
)
from highwater.model.language.types import Leaf, Truth, Type, Value, all_of, as_bool, where


@dataclass(frozen=True)
class Guard:
    """A named condition that a step must satisfy, and the protocol's line that states it."""

    name: str
    node: Node
    place: str | None = None


@dataclass(frozen=True)
class Write:
    """The next value of a scalar, and the protocol's line that wrote it.

    ``by`` lists all statements that wrote the scalar, in order.
    """

    node: Node
    place: str | None
    by: tuple[WriteTarget, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class WriteTarget:
    """The target of a write: its indices, the condition under which it applies, and its line."""

    positions: tuple[Node, ...]
    when: Node
    place: str | None = None
    adds: bool = False
    """True if the write adds to the current value (sent messages), so that one step can have several such writes."""

    def meets(self, other: WriteTarget) -> Node:
        """The condition that both writes reach the same scalar. Precondition: their paths have the same fields."""
        same = [graph.eq(a, b) for a, b in zip(self.positions, other.positions, strict=False)]
        both = [self.when, other.when, *same]
        return graph.FALSE if contradict(both) else graph.all_(both)


@dataclass(frozen=True)
class Check:
    """A condition (``node``) under which a step is pruned at ``bound``; if ``bound`` is None, the step is an error."""

    leaf: int
    node: Node
    bound: str | None
    message: str
    place: str | None


@dataclass
class Trace:
    """The guards, writes, checks and premises recorded while one function ran on symbolic values."""

    guards: list[Guard] = field(default_factory=list)
    writes: dict[int, Write] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    premises: list[Node] = field(default_factory=list)
    on: Callable[[str], bool] | None = None
    """A function that returns True if a rule of the protocol is on; None if the traced function has no protocol."""
    ends_early: bool = False
    """True if tracing stops at a guard that is constant false."""
    when: Node = graph.TRUE
    """The condition that all enclosing ``when`` blocks apply."""
    branches: list[Node | None] = field(default_factory=lambda: [None])
    """For each open block: the disjunction of the conditions of its latest ``when`` chain; None if it has no chain."""
    enabled: Callable[[str, dict[str, Any]], Truth] | None = None
    """The implementation of the language's function ``enabled``; None in actions."""
    script: tuple[int, ...] = ()
    """For each call of ``one_of``, the number of the value to choose; 0 for calls past the end of the script."""
    chosen: list[tuple[str, Any, int, int]] = field(default_factory=list)
    """For each call of ``one_of``: the name, the chosen plain value, its number, and the number of possible values."""
    unentered: dict[object, tuple[str, str | None]] = field(default_factory=dict)
    """The calls of ``when`` and ``otherwise`` that no ``with`` has entered yet: the function's name, and the place."""

    @property
    def premise(self) -> Node:
        """The condition that at least one premise holds; true if there are no premises."""
        return graph.any_(self.premises) if self.premises else graph.TRUE


class NeverTaken(BaseException):
    """Ends the tracing of an action because a guard is constant false. Only the tracing code catches it."""


_current: ContextVar[Trace | None] = ContextVar("trace", default=None)


@contextmanager
def tracing(
    on: Callable[[str], bool] | None = None,
    *,
    ends_early: bool = False,
    script: tuple[int, ...] = (),
    enabled: Callable[[str, dict[str, Any]], Truth] | None = None,
) -> Iterator[Trace]:
    """A context that records guards, writes, checks and premises in a new trace.

    ``Trace`` explains the arguments.
    """
    trace = Trace(on=on, ends_early=ends_early, script=script, enabled=enabled)
    token = _current.set(trace)
    try:
        yield trace
    finally:
        _current.reset(token)
    for word, line in trace.unentered.values():
        raise LanguageError(f"{word} without `with` has no effect: write `with {word[:-1]}…):`", line)


@contextmanager
def looking(
    what: str,
    where: str | None,
    on: Callable[[str], bool],
    enabled: Callable[[str, dict[str, Any]], Truth] | None = None,
) -> Iterator[Trace]:
    """A context that traces a function. Raises LanguageError at ``where`` if the function writes or requires something.

    ``what`` names the function in the error message.
    """
    with tracing(on, enabled=enabled) as trace:
        yield trace
    if trace.writes or trace.guards:
        raise LanguageError(f"{what} writes or requires something; it only looks", where)


def current(word: str) -> Trace:
    """The current trace. Raises LanguageError if nothing is being traced; ``word`` names the caller in the message."""
    trace = _current.get()
    if trace is None:
        raise fail(f"{word} has a meaning only while a protocol is traced")
    return trace


def require(name: str, condition: Truth | bool | None = None, *, rule: str | None = None) -> None:
    """State a guard of the current action: a step is enabled only if the condition holds.

    Reports of refused steps show ``name``. Inside ``with when(…)`` the guard applies only under that condition. With
    ``rule`` the guard exists only if the rule is on; raises LanguageError if the protocol has no such rule. If the
    condition is constant false, tracing ends, because the action is never enabled with these parameters.
    """
    if not isinstance(name, str):
        raise fail(f'require() takes a name first, a text: write require("…", condition), not {name!r}')
    trace, node = current("require()"), as_bool(condition).node
    if rule is not None and not _is_on(rule, "require(…, rule=…)"):
        return
    if mutation.active is not None:
        node = mutation.condition("guard", name, node, sys._getframe(1))
    node = graph.or_(graph.not_(trace.when), node)
    trace.guards.append(Guard(name, node, place()))
    if trace.ends_early and node is graph.FALSE:
        raise NeverTaken(name)


def enabled(action: str, /, **parameters: Any) -> Truth:
    """The condition that this action is enabled. Omitted parameters can have any value.

    For properties only. Raises LanguageError in an action, and for an unknown action or parameter.
    """
    is_enabled = current("enabled()").enabled
    if is_enabled is None:
        raise fail(
            "enabled() asks about actions, in a property: an action's guards say it by a function of their own"
        )
    return is_enabled(action, parameters)


def under(rule: str, condition: Truth | bool) -> Truth:
    """``condition`` if the rule is on, else true. Raises LanguageError if the protocol has no such rule."""
    condition = as_bool(condition)
    return condition if _is_on(rule, "under()") else as_bool(True)


def _is_on(rule: str, word: str) -> bool:
    without = f"{word} asks the protocol for its rule {rule!r}; what is traced here belongs to no protocol"
    return _answer(current(word).on, rule, without)


def _answer(on: Callable[[str], bool] | None, rule: str, without: str) -> bool:
    """True if the rule is on. Raises LanguageError for an unknown rule, and with this text ``without`` an ``on``."""
    if on is None:
        raise fail(without)
    try:
        return on(rule)
    except LanguageError as wrong:
        raise fail(wrong.message) from None


def implies(premise: Truth | bool, conclusion: Truth | bool) -> Truth:
    """The condition that the premise implies the conclusion.

    The trace records the premise. Reports show the number of states or steps that satisfy a premise of a property, so a
    vacuous property is visible.
    """
    premise = as_bool(premise)
    trace = _current.get()
    if trace is not None:
        with suppress(LanguageError):  # of an element that does not exist, under a guard
            trace.premises.append(where_defined(premise.node))
    return ~premise | conclusion


def returned_condition(result: object, what: str, place: str | None) -> Truth:
    """The result of a property's function as a condition that is false if it needs a division by zero.

    Raises LanguageError at ``place`` if the result is not a condition; ``what`` names the property.
    """
    if not isinstance(result, (Truth, bool)):
        raise LanguageError(f"{what} returned {result!r}; it returns a condition", place)
    return Truth(None, (where_defined(as_bool(result).node),))


# The result of a traced action: guards, written scalars, and checks.


def bound_checks(trace: Trace, leaves: list[Leaf]) -> list[Check]:
    """The checks of a trace: the conditions under which a step crosses a bound or is an error.

    An index that a guard keeps inside its range needs no check. A division by zero in a guard, write or check gets a
    check. Raises LanguageError if one of them depends on an element that exists in no state.
    """
    guarded = conjuncts(g.node for g in trace.guards)
    checks = [c for c in trace.checks if graph.not_(c.node) not in guarded]
    return _defined(trace, [*checks, *_leaving(trace, leaves)], guarded)


def _defined(trace: Trace, checks: list[Check], guarded: set[Node]) -> list[Check]:
    """The checks, each false where it is undefined, and one more check for all divisions by zero in the trace.

    The trace's guards, writes and checks can divide.
    """
    guards = [g.node for g in trace.guards]
    needed = [c.node for c in checks] + [w.node for w in trace.writes.values()]
    unknown = undefined_any(guards)
    rest = graph.any_(n for n in map(undefined, needed) if graph.not_(n) not in guarded)
    without = graph.or_(unknown, rest)
    if without is graph.FALSE:
        return checks
    known = graph.not_(unknown)
    checks = [replace(c, node=graph.and_(known, where_defined(c.node))) for c in checks]
    divides = Check(0, without, None, "// or % by zero", place_in([*guards, *needed]))
    return [*(c for c in checks if c.node is not graph.FALSE), divides]


def guards_asked(trace: Trace) -> tuple[Guard, ...]:
    """The guards of a trace that are not constant true.

    A guard that divides by zero counts as true; a check then makes the step an error (``bound_checks``).
    """
    guards = (replace(g, node=graph.or_(g.node, undefined(g.node))) for g in trace.guards)
    return tuple(g for g in guards if g.node is not graph.TRUE)


def _leaving(trace: Trace, leaves: list[Leaf]) -> list[Check]:
    checks: list[Check] = []
    for number, write in sorted(trace.writes.items()):
        leaf = leaves[number]
        outside = any_size.left_by(leaf, write.node)
        if outside is not graph.FALSE:
            message = f"{leaf.path} leaves {leaf.low}..{leaf.high}"
            checks.append(Check(number, outside, leaf.bound, message, write.place))
    return checks


# Branches of an action. ``when`` makes writes and guards conditional within one step. ``one_of`` makes several steps:
# the action is traced once for each choice.


def when(condition: Truth | bool) -> AbstractContextManager[None]:
    """A context whose writes, messages and guards apply only if the condition holds.

    Two ``when`` blocks may write the same field if their conditions exclude each other. A step from a state that
    satisfies both conditions is an error.
    """
    return _block(condition, "when()")


def otherwise(condition: Truth | bool = True) -> AbstractContextManager[None]:
    """A symbolic ``elif`` or ``else`` after ``with when(…):``.

    The block applies if the condition holds and no earlier condition of the chain holds. Raises LanguageError if no
    ``with when(…):`` of the same depth comes before the block.
    """
    if current("otherwise()").branches[-1] is None:
        raise fail("otherwise() follows a `with when(…):` block of the same depth")
    return _block(condition, "otherwise()")


def _block(condition: Truth | bool, word: str) -> AbstractContextManager[None]:
    trace, key, caller = current(word), object(), sys._getframe(2)
    refuse_exits(caller.f_code, caller.f_lineno)
    trace.unentered[key] = word, place()
    return _branch(trace, as_bool(condition), word, key)


@contextmanager
def _branch(trace: Trace, condition: Truth, word: str, key: object) -> Iterator[None]:
    del trace.unentered[key]
    if word == "when()":
        trace.branches[-1] = None
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
    """Choose one value of a type or of a list: the action has a step for each value.

    Reports show the choice under ``name``, beside the action's parameters. Raises LanguageError inside
    ``with when(…)``, outside an action, for the name of another choice, and for a domain without values.
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
        found = check_domain(domain, f"one_of({name!r}, …) cannot choose from")
    except TypeError:
        raise fail(f"one_of() chooses from a type or a list, not from {domain!r}") from None
    if not found:
        raise fail(f"one_of({name!r}, …) has nothing to choose from")
    position = len(trace.chosen)
    number = trace.script[position] if position < len(trace.script) else 0
    value = found[number]
    if isinstance(value, Value) and not all(n.is_const for n in value.nodes):
        raise fail(
            f"one_of({name!r}, …) chooses from what is known while tracing, not from values of the state"
        )
    plain = value._plain() if isinstance(value, Value) else value
    trace.chosen.append((name, plain, number, len(found)))
    return value


def next_script(chosen: list[tuple[str, Any, int, int]]) -> tuple[int, ...] | None:
    """The numbers of the values that ``one_of`` chooses in the next run of an action; None after the last run.

    ``chosen`` is ``Trace.chosen`` of the last run. The last choice changes fastest.
    """
    numbers = [(number, count) for _, _, number, count in chosen]
    while numbers:
        number, count = numbers.pop()
        if number + 1 < count:
            return (*(n for n, _ in numbers), number + 1)
    return None


# Ordered, named checks of a request.
#
# The guards of a step (``require``) have no order, because a step is either enabled or not. A server checks a request
# in a fixed order, and the first failing check determines the answer.


@dataclass(frozen=True)
class NamedCheck:
    """A named check of a request: its condition, and the answer if the condition does not hold."""

    name: str
    holds: Truth
    answer: Any


class Checks:
    """The checks of a request, in the order in which the server makes them.

    If all checks hold, the answer is ``passed_answer``. ``on`` returns True if the rule of a check is on.
    """

    def __init__(self, passed_answer: Any, on: Callable[[str], bool] | None = None) -> None:
        self.passed_answer = passed_answer
        self._on = on
        self._checks: list[NamedCheck] = []

    def check(self, name: str, holds: Truth | bool, answer: Any, *, rule: str | None = None) -> None:
        """Add a check. The request gets ``answer`` if this check is the first that fails.

        With ``rule`` the check exists only if the rule is on. Raises LanguageError for an unknown rule.
        """
        holds = as_bool(holds)
        if mutation.active is not None:
            holds = Truth(None, (mutation.condition("check", name, holds.node, sys._getframe(1)),))
        check = NamedCheck(name, holds, answer)
        without = f"a check under rule {rule!r}: say what is switched on, Checks(…, on=…)"
        if rule is None or _answer(self._on, rule, without):
            self._checks.append(check)

    def __iter__(self) -> Iterator[NamedCheck]:
        return iter(self._checks)

    @property
    def passed(self) -> Truth:
        """The condition that every check holds."""
        return all_of(c.holds for c in self._checks)

    @property
    def answer(self) -> Any:
        """The answer of the first check that fails, or ``passed_answer`` if all checks hold."""
        answer = self.passed_answer
        for check in reversed(self._checks):
            answer = where(check.holds, answer, check.answer)
        return answer

    def require(self) -> None:
        """Make every check a guard of the current action."""
        for check in self._checks:
            require(check.name, check.holds)


# Parameters of actions and of liveness properties.


class HasDomains(Named, Protocol):
    """An action or a property with parameters.

    ``domains`` maps each parameter to the protocol's attribute that lists its values.
    """

    @property
    def domains(self) -> Mapping[str, str]:
        """For each parameter, the protocol's attribute that lists its values."""


def parameter_values(protocol: object, stated: HasDomains, parameter: str) -> list[tuple[Any, Any]]:
    """The values of a parameter of an action or a property, each as (symbolic value, plain value).

    Raises LanguageError if ``define`` does not set the attribute that lists the values, or if its values cannot be
    enumerated.
    """
    attribute, where = stated.domains[parameter], place_of(stated.function)
    called = f"{stated.name} of {type(protocol).__name__}: parameter {parameter!r}"
    domain = getattr(protocol, attribute, None)
    if domain is None:
        hint = meant(attribute, vars(protocol)) or f": write self.{stated.name}s = …, and its name"
        raise LanguageError(f"{called} ranges over {attribute!r}, which define() does not set{hint}", where)
    try:
        found = [_parameter(v) for v in check_domain(domain, f"{attribute!r} cannot be")]
    except LanguageError as wrong:
        raise LanguageError(f"{called}: {wrong.message}", where) from None
    except TypeError:
        raise LanguageError(
            f"{called} ranges over {attribute!r}, which is neither a type nor a list",
            where,
        ) from None
    return found


def choices_of(protocol: object, stated: HasDomains) -> list[dict[str, tuple[Any, Any]]]:
    """All combinations of parameter values of an action or a property; each maps names to (symbolic, plain) values.

    Raises LanguageError if there are more than ``LIMIT``.
    """
    domains = [parameter_values(protocol, stated, p) for p in stated.domains]
    if (count := math.prod(map(len, domains))) > LIMIT:
        what = f"{stated.name} of {type(protocol).__name__} has {count:,} combinations of parameter values"
        raise too_many(what, place_of(stated.function))
    return [dict(zip(stated.domains, choice, strict=True)) for choice in itertools.product(*domains)]


def _parameter(value: Any) -> tuple[Any, Any]:
    return value, value._plain() if isinstance(value, Value) else value
