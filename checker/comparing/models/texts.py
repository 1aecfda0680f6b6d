"""Which functions and tables of a protocol's source differ between two trees, formatting and words aside."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDERS = ("model", "invariants")
SKIPPED = ("model/language",)
"""What is no protocol's text: the language that protocols are stated in."""


@dataclass(frozen=True)
class TextChange:
    """A definition that is new, gone, renamed or another. ``line`` is where it is now (0: nowhere)."""

    file: str
    name: str
    kind: str
    line: int
    meaning: str = ""

    def __str__(self) -> str:
        place = f" ({self.file}:{self.line})" if self.line else f" ({self.file})"
        return f"{self.name}: {self.kind}{place}"


@dataclass(frozen=True)
class _Definition:
    dump: str
    words: str
    line: int
    meaning: str


def changed(before: Path, after: Path, files: list[str] | None = None) -> list[TextChange]:
    """The definitions that differ between two trees, file by file; ``files`` None means all of the protocols."""
    found: list[TextChange] = []
    for name in sorted({*_files(before), *_files(after)}) if files is None else files:
        found += _file(name, _definitions(before / name), _definitions(after / name))
    return found


def _files(tree: Path) -> Iterator[str]:
    for folder in FOLDERS:
        for path in (tree / folder).rglob("*.py"):
            name = path.relative_to(tree).as_posix()
            if not name.startswith(SKIPPED):
                yield name


def _file(name: str, before: dict[str, _Definition], after: dict[str, _Definition]) -> Iterator[TextChange]:
    gone = {d.dump: key for key, d in before.items() if key not in after}
    for key, now in after.items():
        was = before.get(key)
        if was is None:
            old = gone.pop(now.dump, None)
            kind = "new" if old is None else f"renamed, was {old}"
            yield TextChange(name, key, kind, now.line, now.meaning)
        elif was.dump != now.dump:
            yield TextChange(name, key, "changed", now.line, now.meaning)
        elif was.words != now.words:
            yield TextChange(name, key, "other words, the same code", now.line, now.meaning)
    for key in gone.values():
        yield TextChange(name, key, "gone", 0)


def _definitions(path: Path) -> dict[str, _Definition]:
    """The functions and statements of a file by their names: what they do, and their words."""
    if not path.is_file():
        return {}
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return {}
    found: dict[str, _Definition] = {}
    _collect(tree.body, "", found)
    return found


def _collect(body: list[ast.stmt], prefix: str, found: dict[str, _Definition]) -> None:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            _collect(statement.body, f"{prefix}{statement.name}.", found)
            continue
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            meaning = ast.get_docstring(statement) or ""
            own, name = statement.body[1:] if meaning else statement.body, statement.name
            # Without its name: a definition that is only renamed is recognised.
            parts = [statement.args, *statement.decorator_list, *own]
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            meaning, name = "", ", ".join(ast.unparse(t) for t in targets)
            parts = [] if statement.value is None else [statement.value]
        else:
            continue
        dump = "\n".join(ast.dump(part) for part in parts)
        found[prefix + name] = _Definition(
            dump, meaning, statement.lineno, " ".join(meaning.split("\n\n")[0].split())
        )
