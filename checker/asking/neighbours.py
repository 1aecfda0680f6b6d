"""Imports between a user's own files: a protocol's file finds the Python files beside it, as they stand."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NoReturn

from highwater.checker.asking.allowed_code import refuse_foreign


class AsItIs(SourceFileLoader):
    """Loads a file as it stands, without kept bytecode.

    Bytecode is taken for current by the file's size and the second of its last change: a protocol that is edited twice
    in a second would be checked as it was before.
    """

    def source_to_code(self, data: Any, path: Any, *arguments: Any, **named: Any) -> CodeType:  # type: ignore[override]
        """The code of a text. SyntaxError, with the file's name, whatever makes it none: NULs, too deep a nesting."""
        try:
            return super().source_to_code(data, path, *arguments, **named)
        except (ValueError, RecursionError, MemoryError) as wrong:
            said = f"{type(wrong).__name__}: {wrong}" if str(wrong) else type(wrong).__name__
            raise SyntaxError(said, (str(path), 1, None, None)) from None

    def path_stats(self, path: str) -> NoReturn:
        """Nothing is known of the file that bytecode could be compared with."""
        raise OSError


_imported: dict[str, dict[str, ModuleType]] = {}
"""By the name of a protocol's module: the modules beside it that were imported. They live on here only."""


def imported_by(module: str) -> dict[str, Path]:
    """The files that a protocol's file has imported from beside it, by the names of their modules."""
    found = _imported.get(module, {})
    return {name: Path(other.__file__) for name, other in found.items() if other.__file__}


@contextmanager
def beside(path: Path, module: str) -> Iterator[None]:
    """While inside, ``import other`` is ``other.py`` beside this file, whatever else has that name.

    Afterwards these modules are forgotten: a file of the same name in another directory is another one, and one
    that was changed is read again. Modules of the standard library and ``highwater`` itself keep their names.
    """
    directory = path.resolve().parent
    own = (
        {file.stem for file in directory.glob("*.py")}
        - {path.stem, "highwater"}
        - set(sys.stdlib_module_names)
    )
    hidden = {name: sys.modules.pop(name) for name in own if name in sys.modules}
    finder = _Neighbours(directory, own)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _imported[module] = {name: sys.modules.pop(name) for name in own if name in sys.modules}
        sys.modules.update(hidden)


class _Neighbours(MetaPathFinder):
    """Finds modules of these names in a directory."""

    def __init__(self, directory: Path, names: set[str]) -> None:
        self.directory, self.names = directory, names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of ``name.py`` in the directory. InputError where it is a link that leads out of it."""
        if path is not None or fullname not in self.names:
            return None
        file = str(self.directory / f"{fullname}.py")
        refuse_foreign(Path(file), self.directory, f"import {fullname}")
        return importlib.util.spec_from_file_location(fullname, file, loader=AsItIs(fullname, file))
