"""In which pieces of code two versions of a definition differ: the smallest statements and expressions.

A piece that one version has and the other has not is taken with all in it that may be left out when it is executed:
statements within, the branches of a conditional expression, operands after the first of ``and`` and ``or``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any, NamedTuple


class CodePiece(NamedTuple):
    """Where a piece stands in its file; a statement and its only expression can have one place."""

    line: int
    column: int
    end_line: int
    end_column: int
    statement: bool

    @classmethod
    def of(cls, node: Any) -> CodePiece:
        """Where a statement or an expression stands."""
        place = node.lineno, node.col_offset, node.end_lineno, node.end_col_offset
        return cls(*place, isinstance(node, ast.stmt))


def differing_pieces(before: ast.AST, now: ast.AST) -> tuple[tuple[CodePiece, ...], tuple[CodePiece, ...]]:
    """The pieces of each version that the other has not."""
    found = _Differing()
    found.nodes(before, now, (before, now))
    return tuple(dict.fromkeys(found.pieces[0])), tuple(dict.fromkeys(found.pieces[1]))


def all_pieces(node: ast.AST) -> Iterator[CodePiece]:
    """A piece, and all in it that may be left out when it is executed."""
    for piece in (node, *(left_out for inner in _within(node) for left_out in _left_out(inner))):
        if _markable(piece):
            yield CodePiece.of(piece)


def _within(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it; what is in a formatted string has no place of its own in Python 3.11."""
    yield node
    for inner in () if isinstance(node, ast.JoinedStr) else ast.iter_child_nodes(node):
        yield from _within(inner)


def _left_out(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, (ast.stmt, ast.IfExp, ast.Lambda, ast.ExceptHandler, ast.match_case)):
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(node, name, [])
            yield from inner if isinstance(inner, list) else [inner]
    elif isinstance(node, ast.BoolOp):
        yield from node.values[1:]
    elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        yield node.elt
    elif isinstance(node, ast.DictComp):
        yield node.value
    elif isinstance(node, ast.comprehension):
        yield from node.ifs


def _markable(node: ast.AST) -> bool:
    """Whether a note can be made where a node is executed: statements, and expressions that give a value."""
    if isinstance(node, ast.stmt):
        words = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        silent = (ast.Pass, ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom)
        return not words and not isinstance(node, silent)
    if not isinstance(node, ast.expr) or isinstance(node, (ast.Starred, ast.Slice, ast.FormattedValue)):
        return False
    return isinstance(getattr(node, "ctx", None), (ast.Load, type(None)))


Pair = tuple[ast.AST, ast.AST]


class _Differing:
    """Goes down two trees side by side. ``homes`` is the nearest piece around, in each."""

    def __init__(self) -> None:
        self.pieces: tuple[list[CodePiece], list[CodePiece]] = [], []

    def nodes(self, before: ast.AST, now: ast.AST, homes: Pair) -> None:
        if ast.dump(before) == ast.dump(now):
            return
        homes = (before if _markable(before) else homes[0], now if _markable(now) else homes[1])
        alike = type(before) is type(now) and not isinstance(now, (ast.pattern, ast.JoinedStr))
        for name in now._fields if alike else ():
            if name == "args" and isinstance(now, ast.stmt):
                continue  # the names are used in the body, and defaults are no part of what is executed
            a, b = getattr(before, name, None), getattr(now, name, None)
            if isinstance(a, list) and isinstance(b, list) and _are_nodes([*a, *b]):
                self.lists(a, b, homes)
            elif isinstance(a, ast.AST) and isinstance(b, ast.AST):
                self.nodes(a, b, homes)
            elif a != b:
                alike = False
        if not alike:
            self.whole(0, homes[0])
            self.whole(1, homes[1])

    def lists(self, before: list[ast.AST], now: list[ast.AST], homes: Pair) -> None:
        dumps = [[ast.dump(node) for node in nodes] for nodes in (before, now)]
        for word, a, b, c, d in SequenceMatcher(None, dumps[0], dumps[1], autojunk=False).get_opcodes():
            if word == "replace" and b - a == d - c:
                for x, y in zip(before[a:b], now[c:d], strict=True):
                    self.nodes(x, y, homes)
            elif word != "equal":
                for side, some in ((0, before[a:b]), (1, now[c:d])):
                    for node in some:
                        self.whole(side, node if _markable(node) else homes[side])

    def whole(self, side: int, node: ast.AST) -> None:
        self.pieces[side].extend(all_pieces(node))


def _are_nodes(values: list[object]) -> bool:
    return all(isinstance(value, ast.AST) for value in values)
