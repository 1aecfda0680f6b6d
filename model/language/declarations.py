"""Checks of a protocol's declarations, for mistakes that Python accepts and that silently disable a declaration."""

from __future__ import annotations

import ast
import dis
import inspect
import itertools
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Protocol

from highwater.model.language.errors import LanguageError, fail, place, place_of
from highwater.model.language.scalars import Type

LIMIT = 1 << 17
"""The maximum number of values of a domain, of combinations of parameter values, and of scalars in a type."""
RESERVED = ("deadlock", "invariants", "step_properties", "liveness", "helpers", "reachable")
"""Names that scenarios and options use for kinds of properties, so that no property can have them."""


class Named(Protocol):
    """A declaration with a name and a function: an action or a property."""

    @property
    def name(self) -> str:
        """The name of the action or property."""

    @property
    def function(self) -> Callable[..., object]:
        """The Python function of the action or property."""


def check_names(owner: str, properties: Iterable[Named]) -> None:
    """Raises LanguageError if two properties of a protocol have the same name, or one has a reserved name."""
    seen: dict[str, Named] = {}
    for found in properties:
        where = place_of(getattr(found, "mapping", found.function))
        if found.name in RESERVED:
            raise LanguageError(
                f"a property of {owner} cannot be called {found.name!r}: this name selects properties in scenarios "
                "and results; write another name",
                where,
            )
        if seen.setdefault(found.name, found) is not found:
            raise LanguageError(
                f"two properties have the name {found.name!r} in {owner}, so only one would be checked: rename one",
                where,
            )


def takes(function: object, what: str, *given: str, domains: Iterable[str] = ()) -> None:
    """Raises LanguageError if a function cannot be called with the arguments ``given`` and a value for each domain.

    Also refuses comparisons by ``is``. ``what`` is the function's role in the message, such as "a refinement".
    """
    if not callable(function) or isinstance(function, type):
        raise fail(f"{what} is a function of ({', '.join(given)}), not {function!r}")
    name, where = getattr(function, "__name__", repr(function)), place_of(function) or place()
    refuse_identity(function)
    try:
        inspect.signature(function).bind(*given, **dict.fromkeys(domains))
    except TypeError as wrong:
        wanted = ", ".join((*given, *domains))
        raise LanguageError(f"{what} is a function of ({wanted}); {name}: {wrong}", where) from None


def refuse_hidden(owners: Iterable[type | ModuleType], kinds: tuple[type[Named], ...]) -> None:
    """Raises LanguageError if a class or module lacks an action or a property because another decorator wraps it.

    Also refuses an unmarked method with the name of an action or a property of a base class, because the method would
    not replace it. ``kinds`` are the classes of actions and properties.
    """
    for owner, (name, value) in ((each, item) for each in owners for item in vars(each).items()):
        if isinstance(value, (Type, *kinds)):
            continue
        base = getattr(super(owner, owner), name, None) if isinstance(owner, type) else None
        if isinstance(base, kinds):
            raise LanguageError(
                f"{name!r} of {owner.__name__} does not replace the {type(base).__name__.lower()} {name!r} of its "
                "base: decorate it, too, or rename it",
                place_of(value) or place_of(base.function),
            )
        hidden = next((h for h in _inside(value) if isinstance(h, kinds)), None)
        if hidden is not None and not (isinstance(value, FunctionType) and hidden.name != name):
            raise LanguageError(
                f"another decorator hides {hidden.name!r} of {owner.__name__}, so it has no effect: "
                "remove the decorator, or write it below",
                place_of(hidden.function),
            )


def _inside(value: object) -> Iterator[object]:
    """The objects inside a decorator's result: the function that it wraps, and the values of closure variables."""
    yield from (getattr(value, name, None) for name in ("fget", "func", "__func__", "__wrapped__"))
    for cell in value.__closure__ or () if isinstance(value, FunctionType) else ():
        try:
            yield cell.cell_contents
        except ValueError:  # the variable has no value yet
            continue


# Domains.


def check_parameters(what: str, function: Callable[..., object], domains: Mapping[str, object]) -> None:
    """Raises LanguageError if the parameters of a function of (protocol, state, …) and their domains do not fit.

    A domain is the name of an attribute of the protocol. Each domain has a parameter, and each parameter has a domain
    or a default. ``what`` is the action or the property in the message.
    """
    where, parameters = place_of(function), inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    own = [p.name for p in named[:2]]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for name, domain in domains.items():
        if not isinstance(domain, str):
            raise LanguageError(
                f"the domain of {name!r} of {what} is the name of an attribute of the protocol: "
                f'write {name}="…", not {domain!r}',
                where,
            )
        if name in own:
            raise LanguageError(
                f"a parameter of {what} cannot be called {name!r}: its function begins with ({', '.join(own)}); "
                "write another name",
                where,
            )
        if not takes_any and name not in (p.name for p in named):
            raise LanguageError(
                f"{what} gives {name!r} a domain, and its function has no such parameter", where
            )
    for parameter in named[2:]:
        if parameter.name not in domains and parameter.default is parameter.empty:
            raise LanguageError(
                f"parameter {parameter.name!r} of {what} has no domain: "
                f'write {parameter.name}="…" with the attribute that enumerates it',
                where,
            )


def check_domain(domain: Type | Iterable[object], what: str) -> list[object]:
    """The values of a domain, which is a type or a list. Raises LanguageError if it has more than ``LIMIT`` values.

    Three kinds of domain are refused: a text, which is a single value; an iterator, which can be read only once; and a
    Python set, which has no order. Raises TypeError if the domain cannot be iterated. ``what`` begins the message.
    """
    if isinstance(domain, (str, bytes, set, frozenset, Iterator)):
        raise fail(f"{what} {domain!r}: write a type, a list or a tuple")
    every, called = (domain.constants(), str(domain)) if isinstance(domain, Type) else (domain, "this list")
    values = list(itertools.islice(every, LIMIT + 1))
    if len(values) > LIMIT:
        raise too_many(f"{what} {called}: it has too many values")
    return values


def too_many(what: str, where: str | None = None) -> LanguageError:
    """Make an error about a count above ``LIMIT``, for the caller to raise. ``what`` begins the message."""
    return LanguageError(f"{what} (the maximum is {LIMIT:,}); make it smaller", where or place())


# Mistakes that only the source shows: leaving a block of ``when``, and comparisons by ``is``.


@lru_cache(maxsize=512)
def _source(code: CodeType) -> tuple[ast.AST, int]:
    """The syntax tree of a function's source, and the offset from its line numbers to those of the file.

    An empty tree and 0 if there is no source.
    """
    try:
        lines, first = inspect.getsourcelines(code)
        return ast.parse(textwrap.dedent("".join(lines))), first - 1
    except (OSError, SyntaxError):
        return ast.Module([], []), 0


def refuse_exits(code: CodeType, line: int) -> None:
    """Raises LanguageError if a statement leaves the ``with`` block that begins at this line of a function.

    Tracing runs the function once for all states. So a ``return`` in ``with when(c):`` skips the code after the block
    in every state, even if ``c`` does not hold there.
    """
    for word, left, block in _exits(code):
        if line in block:
            raise LanguageError(
                f"{word!r} leaves a `with when(…):` block in every state, so the code after it is not part of the "
                "action: write the other case in `with otherwise():`",
                f"{code.co_filename}:{left}",
            )


@lru_cache(maxsize=512)
def _exits(code: CodeType) -> tuple[tuple[str, int, range], ...]:
    """The statements that leave a ``with`` block: the keyword, its line, and the lines of the block's header."""
    tree, above = _source(code)
    found = []
    for block in ast.walk(tree):
        if isinstance(block, ast.With):
            last = block.items[-1].context_expr.end_lineno or block.lineno
            head = range(above + block.lineno, above + last + 1)
            left = _leaving(block.body, in_loop=False)
            found += [(ast.unparse(s).split()[0], above + s.lineno, head) for s in left]
    return tuple(found)


def _leaving(nodes: Iterable[ast.AST], *, in_loop: bool) -> Iterator[ast.stmt]:
    for node in nodes:
        if isinstance(node, ast.Return) or (isinstance(node, (ast.Break, ast.Continue)) and not in_loop):
            yield node
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = in_loop or isinstance(node, (ast.For, ast.While))
            yield from _leaving(ast.iter_child_nodes(node), in_loop=inner)


_IDENTITY = {number for name, number in dis.opmap.items() if name == "IS_OP" or name.endswith("_NONE")}


def refuse_identity(function: Callable[..., object]) -> None:
    """Raises LanguageError if a function of (protocol, state, …) compares values by ``is``.

    Python evaluates ``is`` without calling a method of the objects, so the result would be the same in all states. The
    check reads the source of this function only. It finds comparisons of a field, of a local variable that is set to a
    field, and of two parameters or loop variables.
    """
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or code.co_argcount < 2 or not _asks(code):
        return
    tree, above = _source(code)
    protocol, *own = code.co_varnames[: code.co_argcount]
    fields = _assigned(tree, own)
    singles = {*own, *_loop_variables(tree, (protocol, *own))}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare) or not any(isinstance(o, (ast.Is, ast.IsNot)) for o in node.ops):
            continue
        sides = [s.value if isinstance(s, ast.NamedExpr) else s for s in (node.left, *node.comparators)]
        both = all(isinstance(s, ast.Name) and s.id in singles for s in sides)
        for side in sides:
            if both or _is_read_of(side, own) or (isinstance(side, ast.Name) and side.id in fields):
                operand = ast.unparse(side)
                raise LanguageError(
                    f"'{ast.unparse(node)}' asks which Python object {operand} is: write "
                    + ("== or !=" if both else f"{operand}.is_none, or =="),
                    f"{code.co_filename}:{above + node.lineno}",
                )


def refuse_useless(function: Callable[..., object]) -> None:
    """Raises LanguageError for code of an action or a property that has no effect, or an effect outside of the state.

    The check reads the source of this function only.
    """
    function = inspect.unwrap(function)
    code = function.__code__
    tree, above = _source.__wrapped__(code)  # not cached: equal code can be of another file
    protocol, *own = code.co_varnames[: code.co_argcount]
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    unread = {node.id for node in names} - {node.id for node in names if isinstance(node.ctx, ast.Load)}
    shared = {name for name, value in function.__globals__.items() if isinstance(value, (list, dict, set))}
    for node in ast.walk(tree) if code.co_name != "<lambda>" else ():
        wrong = ""
        match node:
            case (
                ast.Expr(ast.Call(ast.Attribute(ast.Name(name))))
                | ast.Assign([ast.Attribute(ast.Name(name)) | ast.Subscript(ast.Name(name))])
                | ast.AugAssign(ast.Attribute(ast.Name(name)) | ast.Subscript(ast.Name(name)))
                | ast.Global([name])
            ) if (
                name in shared
                or isinstance(node, ast.Global)
                or (name == protocol and not isinstance(node, ast.Expr))
            ):
                wrong = "changes an object while tracing, not in a step: add a field to the state"
            case ast.Expr(value) if _is_value(value, own):
                wrong = 'has no effect: write s.next.… = …, require("…", …) or return'
            case ast.Assign([ast.Name(name)], ast.BinOp(_, ast.Add() | ast.Sub())) | ast.Assign(
                [ast.Name(name)], ast.Call(ast.Attribute(_, "set" | "append" | "replace" | "with_"))
            ) if own and name in unread and ast.unparse(node.value).startswith(f"{own[0]}."):
                wrong = f"has no effect, because nothing reads {name}: write s.next.… = …"
            case ast.For(body=body) if any(isinstance(each, ast.Return) for each in body):
                wrong = "returns at its first value: write all_of(… for …), or yield"
            case ast.UnaryOp(ast.Invert(), ast.Call(ast.Attribute(_, "on"))):
                wrong = "is always true: write `not`"
        if wrong:
            where = f"{code.co_filename}:{above + getattr(node, 'lineno', 0)}"
            raise LanguageError(f"{ast.unparse(node).splitlines()[0]!r} {wrong}", where)


def _is_value(node: ast.expr, parameters: Collection[str]) -> bool:
    """True if evaluating an expression has no effect: an operation, or a read of the state."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return f" {node.func.id} " in " where cases implies all_of any_of enabled "
    is_read = _is_read_of(node, parameters) and ".next." not in ast.unparse(node)
    return is_read or isinstance(node, (ast.Compare, ast.BinOp, ast.BoolOp, ast.UnaryOp))


def _asks(code: CodeType) -> bool:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return not _IDENTITY.isdisjoint(code.co_code[::2]) or any(map(_asks, inner))


def _assigned(tree: ast.AST, parameters: Collection[str]) -> set[str]:
    """The local variables that are set once, to a field of a parameter."""
    every = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _is_read_of(node.value, parameters)
        for target in node.targets
        if isinstance(target, ast.Name) and every.count(target.id) == 1
    }


def _loop_variables(tree: ast.AST, parameters: Collection[str]) -> set[str]:
    """The variables of loops over an attribute of a parameter, such as ``for n in m.node``."""
    loops = (n for n in ast.walk(tree) if isinstance(n, (ast.For, ast.comprehension)))
    targets = (loop.target for loop in loops if _is_read_of(loop.iter, parameters))
    return {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}


def _is_read_of(side: ast.expr, parameters: Collection[str]) -> bool:
    inside = side
    while isinstance(inside, (ast.Attribute, ast.Subscript, ast.Call)):
        inside = inside.func if isinstance(inside, ast.Call) else inside.value
    return inside is not side and isinstance(inside, ast.Name) and inside.id in parameters


@dataclass(frozen=True)
class Profile:
    """A named set of rules that are on together, such as the rules of one Kafka version."""

    meaning: str
    rules: frozenset[str]

    @classmethod
    def of(cls, meaning: str, *rules: str) -> Profile:
        """The profile with the rules of these names."""
        return cls(meaning, frozenset(rules))

    def but(self, meaning: str, on: Iterable[str] = (), off: Iterable[str] = ()) -> Profile:
        """This profile with the rules ``on`` switched on and ``off`` switched off."""
        return Profile(meaning, (self.rules | set(on)) - set(off))
