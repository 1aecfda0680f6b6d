"""Mutants of Python source: swapped comparison, constant off by one, negated condition, removed statement.

A mutant is a place in a file and its new text. Code without effect at run time is left out: texts,
annotations, ``__all__`` and imports for types.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDERS = ("checker", "model/language", "traces")
"""The folders with the engines, their readers and their reports."""

_SWAPPED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in",
    ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip


@dataclass(frozen=True, order=True)
class Mutant:
    """``text`` replaces the bytes from ``start`` to ``end`` of a file with a relative path."""

    file: str
    line: int
    start: int
    end: int
    kind: str
    before: str
    text: str

    def of(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]

    def __str__(self) -> str:
        before, after = (" ".join(text.split()) for text in (self.before, self.text))
        return f"{self.file}:{self.line}: {self.kind}: {before} → {after or 'nothing'}"


@cache
def mutants(root: Path, folders: tuple[str, ...] = FOLDERS) -> list[Mutant]:
    found: list[Mutant] = []
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            found += of_file(name, path.read_bytes())
    return sorted(found)


def chosen(every: list[Mutant], seed: int, count: int) -> list[Mutant]:
    """``count`` mutants: each draw chooses a kind first, so no kind is rare."""
    rng = random.Random(seed)
    kinds = sorted({mutant.kind for mutant in every})
    by_kind = {kind: [mutant for mutant in every if mutant.kind == kind] for kind in kinds}
    found: list[Mutant] = []
    while len(found) < count:
        mutant = rng.choice(by_kind[rng.choice(kinds)])
        if mutant not in found:
            found.append(mutant)
    return found


def of_file(name: str, source: bytes) -> Iterator[Mutant]:
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in _executed(ast.parse(source)):
        for kind, place, text in _changes(node, source, starts):
            start, end = place
            yield Mutant(name, node.lineno, start, end, kind, source[start:end].decode(), text)


def _executed(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """The statements and expressions that have an effect at run time, nested ones included."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.stmt, ast.expr)):
            if _means_nothing(node):
                continue
            yield node
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            yield node.value
            yield from _executed(node.value)
        elif isinstance(node, ast.arg):
            continue
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for statement in node.body:
                yield from _executed(ast.Module([statement], []))
        else:
            yield from _executed(node)


def _means_nothing(node: ast.stmt | ast.expr) -> bool:
    if isinstance(node, (ast.Import, ast.ImportFrom, ast.JoinedStr)):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.Assign):
        return any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _changes(
    node: ast.stmt | ast.expr, source: bytes, starts: list[int]
) -> Iterator[tuple[str, tuple[int, int], str]]:
    def place(of: ast.expr | ast.stmt) -> tuple[int, int]:
        assert of.end_lineno is not None
        assert of.end_col_offset is not None
        return starts[of.lineno - 1] + of.col_offset, starts[of.end_lineno - 1] + of.end_col_offset

    def text(of: ast.expr) -> str:
        start, end = place(of)
        return source[start:end].decode()

    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, (right,) = node.left, node.comparators
        # The text between the operands: parentheses belong to neither.
        between = place(left)[1], place(right)[0]
        sign = source[between[0] : between[1]].decode()
        plain = ast.unparse(ast.Compare(ast.Name("a"), node.ops, [ast.Name("b")])).split(" ", 1)[1][:-2]
        if sign.count(plain) == 1:
            other = sign.replace(plain, _SWAPPED[type(node.ops[0])])
            start, end = place(node)
            yield (
                "comparison",
                (start, end),
                (source[start : between[0]] + other.encode() + source[between[1] : end]).decode(),
            )
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield "constant", place(node), str(node.value + 1)
    elif isinstance(node, (ast.If, ast.While, ast.IfExp)):
        yield "condition", place(node.test), f"(not ({text(node.test)}))"
    elif isinstance(node, ast.Return) and node.value is not None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool):
            yield "return", place(node.value), str(not node.value.value)
        elif not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield "return", place(node.value), "None"
    elif isinstance(node, (ast.Assign, ast.AugAssign)) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield "statement", place(node), "pass"
