"""Apply a mutant to its protocol's source text, for comparison with the mutant itself."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from highwater.model.language.mutation import Mutant

_COMPARISONS: dict[str, type[ast.cmpop]] = {
    "<": ast.Lt,
    "<=": ast.LtE,
    ">": ast.Gt,
    ">=": ast.GtE,
    "==": ast.Eq,
    "!=": ast.NotEq,
}


class NotEditableError(ValueError):
    """No edit of one expression gives this mutant."""


def edited(source: str, mutant: Mutant) -> str:
    """The source with the mutant applied."""
    tree = ast.parse(source)
    line = int(mutant.place.rpartition(":")[2])
    editor = _Editor(mutant, (line, mutant.last, *mutant.columns))
    tree = editor.visit(tree)
    if editor.edits != 1:
        raise NotEditableError(f"{mutant}: {editor.edits} places")
    return ast.unparse(ast.fix_missing_locations(tree))


def loaded(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _is(node: ast.AST, at: tuple[int, int, int, int]) -> bool:
    own = tuple(getattr(node, k, None) for k in ("lineno", "end_lineno", "col_offset", "end_col_offset"))
    return own == at


class _Editor(ast.NodeTransformer):
    """Changes the expression or statement at a place."""

    def __init__(self, mutant: Mutant, at: tuple[int, int, int, int]) -> None:
        self.mutant, self.at, self.edits = mutant, at, 0

    def visit(self, node: ast.AST) -> Any:
        sign, _, change = self.mutant.change.rpartition(": ")
        if isinstance(node, ast.Expr) and self.mutant.kind in ("guard", "check") and _is(node.value, self.at):
            return self._condition(node, change)
        if isinstance(node, ast.Assign) and self.mutant.kind == "write" and _is(node.targets[0], self.at):
            return self._edit(ast.Pass())
        if isinstance(node, ast.expr) and _is(node, self.at) and self.mutant.kind not in ("guard", "check"):
            return self._expression(node, sign, change)
        return super().visit(node)

    def _edit(self, node: ast.AST) -> ast.AST:
        self.edits += 1
        return node

    def _condition(self, node: ast.Expr, change: str) -> ast.AST:
        if change == "dropped":
            return self._edit(ast.Pass())
        assert isinstance(node.value, ast.Call)
        node.value.args[1] = ast.UnaryOp(ast.Invert(), node.value.args[1])
        return self._edit(node)

    def _expression(self, node: ast.expr, sign: str, change: str) -> ast.AST:
        match node:
            case ast.BinOp():
                return self._edit(self._binary(node, change))
            case ast.Compare():
                if sign == "subset":
                    return self._edit(ast.Compare(node.comparators[0], node.ops, [node.left]))
                node.ops = [_COMPARISONS[change]()]
                return self._edit(node)
            case ast.UnaryOp():
                return self._edit(node.operand)
        raise NotEditableError(f"{self.mutant}: {ast.unparse(node)}")

    def _binary(self, node: ast.BinOp, change: str) -> ast.expr:
        if change == "left only":
            return node.left
        if change == "right only":
            return node.right
        node.op = {"&": ast.BitAnd(), "|": ast.BitOr()}[change]
        return node
