"""Python files that a scenario may execute: files in its own folder, and in folders that the user allows.

A received scenario names a protocol, and a protocol is a program. So a scenario may name only files in its own folder
and in allowed folders. It cannot reach other files by ``..``, an absolute path or a link.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NoReturn

from highwater.checker.base.problems import InputError, environment

VARIABLE = "HIGHWATER_ALLOW_CODE"
"""The environment variable with allowed folders, separated as in PATH. Helper processes inherit it."""
OPTION = "--allow-code"


def refuse_foreign(file: Path, folder: Path, who: str) -> None:
    """Raises InputError if a file is outside this folder and all allowed folders, after links are followed.

    ``who`` is the file or key that names the file, for the error.
    """
    try:
        real = os.path.realpath(file)
    except ValueError:
        raise InputError(f"{who}: {str(file)!r} cannot be the path of a file") from None
    if any(_is_inside(real, place) for place in (folder, *allowed())):
        return
    raise InputError(
        f"{who}: {file} is outside of the folder {folder}, and would be executed; {OPTION} DIR allows what is in DIR"
    )


def allowed() -> list[Path]:
    """The folders that the user allows in addition, from the environment."""
    return [Path(place) for place in os.environ.get(VARIABLE, "").split(os.pathsep) if place]


def allowing(folders: Iterable[str | Path]) -> AbstractContextManager[None]:
    """While inside, these folders are also allowed, in this process and in processes that it starts.

    Raises InputError if the name of a folder cannot be passed in the environment.
    """
    added = [os.path.realpath(folder) for folder in folders]
    for folder in added:
        if os.pathsep in folder:
            raise InputError(f"{OPTION} {folder}: a folder with {os.pathsep!r} in its name cannot be allowed")
    return environment(VARIABLE, os.pathsep.join([*filter(None, [os.environ.get(VARIABLE)]), *added]))


def _is_inside(real: str, folder: Path) -> bool:
    place = os.path.realpath(folder)
    return os.path.commonpath([real, place]) == place


# Imports between a user's own files: a protocol's file can import the Python files in its folder.


class AsItIs(SourceFileLoader):
    """Loads a Python file from its text, without cached bytecode.

    Python uses cached bytecode if the file has the same size, and the same time of change in whole seconds. So a second
    edit within a second could go unnoticed.
    """

    def source_to_code(self, data: Any, path: Any, *arguments: Any, **named: Any) -> CodeType:  # type: ignore[override]
        """Compile a text. Raises SyntaxError, with the file's name, for any invalid or too deeply nested text."""
        try:
            return super().source_to_code(data, path, *arguments, **named)
        except (ValueError, RecursionError, MemoryError) as wrong:
            said = f"{type(wrong).__name__}: {wrong}" if str(wrong) else type(wrong).__name__
            raise SyntaxError(said, (str(path), 1, None, None)) from None

    def path_stats(self, path: str) -> NoReturn:
        """Raises OSError, so that Python does not compare the file with bytecode."""
        raise OSError


_imported: dict[str, dict[str, ModuleType]] = {}
"""By the name of a protocol's module: the modules imported from its folder, which are no longer in sys.modules."""


def imported_by(module: str) -> dict[str, Path]:
    """The files that a protocol's file has imported from its folder, by module name."""
    found = _imported.get(module, {})
    return {name: Path(other.__file__) for name, other in found.items() if other.__file__}


@contextmanager
def beside(path: Path, module: str) -> Iterator[None]:
    """While inside, ``import other`` imports ``other.py`` beside this file, even if another module has this name.

    Afterwards these modules are removed from sys.modules, so that a later import reads the file again. A file with
    the name of a standard library module, or ``highwater``, is not imported.
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
    """Finds modules with given names in one directory."""

    def __init__(self, directory: Path, names: set[str]) -> None:
        self.directory, self.names = directory, names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of ``fullname.py`` in the directory; None for other modules.

        Raises InputError if the file is a link that leads out of the directory.
        """
        if path is not None or fullname not in self.names:
            return None
        file = str(self.directory / f"{fullname}.py")
        refuse_foreign(Path(file), self.directory, f"import {fullname}")
        return importlib.util.spec_from_file_location(fullname, file, loader=AsItIs(fullname, file))
