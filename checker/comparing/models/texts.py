"""Functions and tables of protocols that differ between two source trees, and the pieces of code that differ."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

_Node = TypeVar("_Node", bound=ast.AST)
_NUMBER = re.compile(r"[A-Z]*\d+(\.\d+)*")
"""The number of a rule."""
_LAYOUT = "other words, formatting or order"


@dataclass
class TextChange:
    """A definition that is new, gone, moved, renamed or changed. ``line`` is its present line (0: it is gone).

    - ``same_code``: True if only the place, name, prose, annotations or local names of the definition differ
    - ``data``: True if a table, a decorator or a default value differs; any code may read these
    - ``before``, ``now``: the pieces of code that differ, in the former and in the present source
    """

    file: str
    name: str
    kind: str
    line: int
    meaning: str = ""
    same_code: bool = False
    data: bool = False
    before: tuple[CodePiece, ...] = ()
    now: tuple[CodePiece, ...] = ()
    effect: str = ""
    """The effect on the models of the gate; "" if it was not examined."""
    unused: tuple[int, ...] = ()
    """The lines of the present pieces that no scenario executes."""
    unused_before: tuple[int, ...] = ()
    """The lines of the former pieces that no scenario executes."""

    def __str__(self) -> str:
        lines = ", ".join(map(str, self.unused or (self.line,) * bool(self.line)))
        before = "" if self.unused else ", ".join(map(str, self.unused_before))
        places = [f"{self.file}:{lines}" if lines else self.file] + [f"before: line {before}"] * bool(before)
        return f"{self.name}: {self.kind} ({'; '.join(places)})"


@dataclass(frozen=True)
class _Definition:
    node: ast.stmt | ast.Module
    line: int
    meaning: str
    code: str
    """A function's code without prose, and with numbers in place of local names; "" for a class or a table."""
    header: str
    """The code that runs when the module is loaded: decorators and defaults of a function, or a whole table."""

    @property
    def is_function(self) -> bool:
        return isinstance(self.node, (ast.FunctionDef, ast.AsyncFunctionDef))


_Key = tuple[str, str]
"""A file, and a name in it."""
_Tree = dict[_Key, _Definition]


def changed(before: Path, after: Path, files: Collection[str]) -> list[TextChange]:
    """The definitions that differ between two source trees. ``files`` are paths relative to the trees."""
    trees: tuple[_Tree, _Tree] = {}, {}
    reordered = []
    for file in sorted(files):
        texts = [_text(tree / file) for tree in (before, after)]
        if texts[0] == texts[1]:
            continue
        own = [_definitions(text) for text in texts]
        for tree, found in zip(trees, own, strict=True):
            tree |= {(file, name): definition for name, definition in found.items()}
        dumps = [{name: ast.dump(d.node) for name, d in found.items()} for found in own]
        if dumps[0] == dumps[1]:
            reordered.append(TextChange(file, file, _LAYOUT, 0, same_code=True))
    return [*_between(*trees), *reordered]


def _between(before: _Tree, after: _Tree) -> Iterator[TextChange]:
    gone = {key: d for key, d in before.items() if key not in after}
    for (file, name), now in after.items():
        was = before.get((file, name))
        change = TextChange(file, name, "changed", now.line, now.meaning)
        if was is None:
            old = _same(gone, file, name, now)
            change.kind = "new" if old is None else _elsewhere(old, file, name)
            change.same_code = old is not None
            change.now = tuple(all_pieces(now.node)) if old is None and now.is_function else ()
        elif (was.code, was.header) != (now.code, now.header):
            change.data = was.header != now.header
            change.before, change.now = differing_pieces(_plain(was.node), _plain(now.node))
        elif ast.dump(was.node) != ast.dump(now.node):
            change.kind, change.same_code = "other words or local names, the same code", True
        else:
            continue
        yield change
    for (file, name), was in gone.items():
        yield TextChange(file, name, "gone", 0, before=tuple(all_pieces(was.node)) if was.is_function else ())


def _same(gone: _Tree, file: str, name: str, now: _Definition) -> _Key | None:
    """Remove an equal definition with another name or file from ``gone``, and return its key.

    None if there is no such definition.
    """
    alike = [key for key, was in gone.items() if (was.code, was.header) == (now.code, now.header)]
    if not now.is_function:  # many tables are equal
        alike = [key for key in alike if key[1] == name]
    alike.sort(key=lambda key: (key[1] != name, key[0] != file))
    if alike:
        del gone[alike[0]]
    return alike[0] if alike else None


def _elsewhere(old: _Key, file: str, name: str) -> str:
    words = [f"renamed, was {old[1]}"] * (old[1] != name) + [f"moved, was in {old[0]}"] * (old[0] != file)
    return "; ".join(words)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _definitions(text: str) -> dict[str, _Definition]:
    """The functions and statements of a source text, by name; empty if the text is not Python."""
    found: dict[str, _Definition] = {}
    try:
        _collect(ast.parse(text).body, "", found)
    except (SyntaxError, ValueError):
        return {}
    return found


def _collect(body: list[ast.stmt], prefix: str, found: dict[str, _Definition]) -> None:
    imports: list[ast.stmt] = []
    for statement in body:
        node, meaning, header, code = statement, "", "", ""
        if isinstance(statement, ast.ClassDef):
            _collect(statement.body, f"{prefix}{statement.name}.", found)
            name, node = f"class {statement.name}", copy.copy(statement)
            node.body = []
            header = ast.dump(_plain(node))
        elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            meaning, name, plain = ast.get_docstring(statement) or "", statement.name, _plain(statement)
            header = "\n".join(map(ast.dump, [*plain.decorator_list, *_defaults(plain)]))
            code = _without_names(plain)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            name = ", ".join(ast.unparse(t) for t in targets)
            header = "" if statement.value is None else ast.dump(_plain(statement.value))
        elif isinstance(statement, (ast.Import, ast.ImportFrom)) or "TYPE_CHECKING" in ast.dump(statement):
            imports.append(statement)
            continue
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        else:
            header = ast.unparse(_plain(statement))
            name = header.splitlines()[0]
        while prefix + name in found:
            name += "'"
        said = " ".join(meaning.split("\n\n")[0].split())
        found[prefix + name] = _Definition(node, statement.lineno, said, code, header)
    if imports:
        whole = ast.Module(imports, [])
        found[f"{prefix}imports"] = _Definition(whole, imports[0].lineno, "", ast.dump(whole), "")


def _defaults(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    return [*function.args.defaults, *(d for d in function.args.kw_defaults if d is not None)]


class _Plain(ast.NodeTransformer):
    """Removes code that does not affect models: docstrings, annotations, and strings with prose or rule numbers."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and (" " in node.value or _NUMBER.fullmatch(node.value)):
            node.value = ""
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.copy_location(ast.Constant(None), node.annotation)
        return self.generic_visit(node)


def _plain(node: _Node) -> _Node:
    plain: _Node = _Plain().visit(copy.deepcopy(node))
    return plain


def _without_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The code of a function's arguments and body, with local names replaced by numbers."""
    bound = [
        n.arg if isinstance(n, ast.arg) else n.id
        for n in ast.walk(function)
        if isinstance(n, ast.arg) or (isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))
    ]
    outer = {x for n in ast.walk(function) if isinstance(n, (ast.Global, ast.Nonlocal)) for x in n.names}
    numbers = {name: f"_{i}" for i, name in enumerate(dict.fromkeys(n for n in bound if n not in outer))}
    function = copy.deepcopy(function)
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            node.arg = numbers[node.arg]
        elif isinstance(node, ast.Name):
            node.id = numbers.get(node.id, node.id)
    return "\n".join(map(ast.dump, [function.args, *function.body]))


class CodePiece(NamedTuple):
    """The place of a piece of code in its file.

    A statement and its only expression can have the same place; ``statement`` distinguishes them.
    """

    line: int
    column: int
    end_line: int
    end_column: int
    statement: bool

    @classmethod
    def of(cls, node: Any) -> CodePiece:
        """The place of a statement or an expression."""
        place = node.lineno, node.col_offset, node.end_lineno, node.end_col_offset
        return cls(*place, isinstance(node, ast.stmt))


def differing_pieces(before: ast.AST, now: ast.AST) -> tuple[tuple[CodePiece, ...], tuple[CodePiece, ...]]:
    """The pieces of code that only one of two versions has, for each version."""
    found = _Differing()
    found.nodes(before, now, (before, now))
    return tuple(dict.fromkeys(found.pieces[0])), tuple(dict.fromkeys(found.pieces[1]))


def all_pieces(node: ast.AST) -> Iterator[CodePiece]:
    """The place of a piece of code, and the places of all inner pieces that its execution may skip."""
    for piece in (node, *(left_out for inner in _within(node) for left_out in _left_out(inner))):
        if _markable(piece):
            yield CodePiece.of(piece)


def _within(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all nodes below it. In Python 3.11, parts of a formatted string have no position of their own."""
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
    """True if execution of the node can be recorded: it is a statement, or an expression with a value."""
    if isinstance(node, ast.stmt):
        words = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        silent = (ast.Pass, ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom)
        return not words and not isinstance(node, silent)
    if not isinstance(node, ast.expr) or isinstance(node, (ast.Starred, ast.Slice, ast.FormattedValue)):
        return False
    return isinstance(getattr(node, "ctx", None), (ast.Load, type(None)))


Pair = tuple[ast.AST, ast.AST]


class _Differing:
    """Walks two syntax trees side by side and collects the pieces that differ.

    ``homes`` are the nearest enclosing pieces whose execution can be recorded, one in each tree.
    """

    def __init__(self) -> None:
        self.pieces: tuple[list[CodePiece], list[CodePiece]] = [], []

    def nodes(self, before: ast.AST, now: ast.AST, homes: Pair) -> None:
        if ast.dump(before) == ast.dump(now):
            return
        homes = (before if _markable(before) else homes[0], now if _markable(now) else homes[1])
        alike = type(before) is type(now) and not isinstance(now, (ast.pattern, ast.JoinedStr))
        for name in now._fields if alike else ():
            if name == "args" and isinstance(now, ast.stmt):
                continue  # the body uses the names, and a call does not execute the defaults
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
