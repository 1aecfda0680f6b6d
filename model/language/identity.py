"""``s.field is None`` in a protocol: Python answers it without asking the value, so the text itself is looked at."""

from __future__ import annotations

import ast
import dis
import inspect
import textwrap
from collections.abc import Callable
from types import CodeType

from highwater.model.language.errors import LanguageError, place_of

_IDENTITY = {number for name, number in dis.opmap.items() if name == "IS_OP" or name.endswith("_NONE")}


def refuse_identity(function: Callable[..., object]) -> None:
    """LanguageError where a function of (protocol, state, …) asks a read of the state which object it is.

    That is a Python object of the language, never None, True or another field, so the answer would be always the same.
    Only what is read off the state's own name is found, not what went through a local variable.
    """
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None or code.co_argcount < 2 or not _asks(code):
        return
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        return
    state = code.co_varnames[1]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare) or not any(
            isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops
        ):
            continue
        for side in (node.left, *node.comparators):
            if _is_read_of(side, state):
                file, _, first = (place_of(function) or "?:1").rpartition(":")
                asked = ast.unparse(side)
                raise LanguageError(
                    f"'{ast.unparse(node)}' asks which Python object {asked} is: write {asked}.is_none, or ==",
                    f"{file}:{int(first) + node.lineno - 1}",
                )


def _asks(code: CodeType) -> bool:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return not _IDENTITY.isdisjoint(code.co_code[::2]) or any(map(_asks, inner))


def _is_read_of(side: ast.expr, state: str) -> bool:
    inside = side
    while isinstance(inside, (ast.Attribute, ast.Subscript, ast.Call)):
        inside = inside.func if isinstance(inside, ast.Call) else inside.value
    return inside is not side and isinstance(inside, ast.Name) and inside.id == state
