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
            case ast.Call():
                return self._edit(self._call(node, sign, change))
        raise NotEditableError(f"{self.mutant}: {ast.unparse(node)}")

    def _binary(self, node: ast.BinOp, change: str) -> ast.expr:
        if change == "left only":
            return node.left
        if change == "right only":
            return node.right
        node.op = {"&": ast.BitAnd(), "|": ast.BitOr()}[change]
        return node

    def _call(self, node: ast.Call, sign: str, change: str) -> ast.expr:
        args = node.args
        if isinstance(node.func, ast.Attribute) and node.func.attr == "replace":
            field = self.mutant.change.removesuffix("= dropped")
            node.keywords = [k for k in node.keywords if k.arg != field]
            return node
        if isinstance(node.func, ast.Attribute) and change in ("dropped", "left only"):
            return node.func.value
        if sign == "where":
            yes, no = args[1:]
            node.args = [args[0], *{"always": (yes, yes), "never": (no, no), "swapped": (no, yes)}[change]]
            return node
        if sign in ("when", "otherwise"):
            node.args = [ast.Constant(change == "always")]
            return node
        if sign in ("all of", "any of", "in") and change.endswith(" dropped"):
            inside = args[0].elts if sign != "in" else args  # type: ignore[attr-defined]
            del inside[int(change.split()[0]) - 1]
            return node
        if change.startswith("case "):
            del args[int(change.split()[1]) - 1]
            return node
        if sign == "least by" and change == "among dropped":
            node.keywords = [k for k in node.keywords if k.arg != "among"]
            return node
        if sign in ("least", "greatest", "any of", "all of") and change in (
            "least",
            "greatest",
            "any of",
            "all of",
        ):
            assert isinstance(node.func, ast.Name)
            node.func.id = change.replace(" ", "_")
            return node
        raise NotEditableError(f"{self.mutant}: {ast.unparse(node)}")
