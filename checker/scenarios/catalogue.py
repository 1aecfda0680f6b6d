"""Protocols, their properties, and the scenario files beside them.

A protocol is known by its package under ``model`` (``truncation``, ``replication.controller``), or by a user's own
Python file.

A received scenario names a protocol, and a protocol is a program. So a scenario may execute only Python files in its
own folder, and in folders that the user allows. It cannot reach other files by ``..``, an absolute path or a link.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NoReturn, TypeVar

from highwater import model
from highwater.checker.base.problems import InputError, environment
from highwater.errors import unknown
from highwater.invariants.catalogue import stated
from highwater.model import registry
from highwater.model.language import Action, Invariant, LanguageError, Liveness, Protocol, StepProperty
from highwater.model.language.declarations import check_names, refuse_useless
from highwater.model.language.errors import place_of
from highwater.model.language.procedures import taking
from highwater.model.language.protocol import ChoiceError, Goal, check_actions, check_conditions

ALLOW_CODE_VARIABLE = "HIGHWATER_ALLOW_CODE"
"""The environment variable with allowed folders, separated as in PATH. Helper processes inherit it."""
ALLOW_CODE = "--allow-code"


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
        f"{who}: {file} is outside of the folder {folder}, and would be executed; "
        f"{ALLOW_CODE} DIR allows what is in DIR"
    )


def allowed() -> list[Path]:
    """The folders that the user allows in addition, from the environment."""
    return [Path(place) for place in os.environ.get(ALLOW_CODE_VARIABLE, "").split(os.pathsep) if place]


def allowing(folders: Iterable[str | Path]) -> AbstractContextManager[None]:
    """While inside, these folders are also allowed, in this process and in processes that it starts.

    Raises InputError if the name of a folder cannot be passed in the environment.
    """
    added = [os.path.realpath(folder) for folder in folders]
    for folder in added:
        if os.pathsep in folder:
            raise InputError(
                f"{ALLOW_CODE} {folder}: a folder with {os.pathsep!r} in its name cannot be allowed"
            )
    return environment(
        ALLOW_CODE_VARIABLE, os.pathsep.join([*filter(None, [os.environ.get(ALLOW_CODE_VARIABLE)]), *added])
    )


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
            text = f"{type(wrong).__name__}: {wrong}" if str(wrong) else type(wrong).__name__
            raise SyntaxError(text, (str(path), 1, None, None)) from None

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


_P = TypeVar("_P", bound=Invariant | StepProperty)
MODELS = Path(model.__file__).parent
"""The directory of the protocols that come with the checker."""
OWN_FILE = "_highwater_file_"
"""The prefix of the module names of users' Python files; a number follows."""


@dataclass(frozen=True)
class Definition:
    """A protocol and its properties. ``file`` is set if the protocol comes from a user's own Python file."""

    name: str
    protocol: type[Protocol]
    invariants: tuple[Invariant, ...]
    file: Path | None = None
    liveness: tuple[Liveness, ...] = ()
    step_properties: tuple[StepProperty, ...] = ()
    helpers: tuple[Invariant | StepProperty, ...] = ()
    """Properties that support the proofs of other properties. They are checked only in scenarios that name them."""
    reachable: tuple[Goal, ...] = ()
    """Reachability goals. A scenario names the goals that it expects to be reached."""
    procedure: str = ""
    """The procedure to which the protocol is restricted; empty: it is not restricted."""

    def __post_init__(self) -> None:
        """Raises LanguageError if a property or an action names a number, a rule or an action that does not exist."""
        properties: list[Invariant | StepProperty | Liveness] = [*self.invariants, *self.step_properties]
        properties += (*self.liveness, *self.reachable)
        self.protocol.check_sources(properties)
        check_names(self.protocol.__name__, (*properties, *self.helpers))
        for prop in self.liveness:
            check_actions(self.protocol, prop.name, place_of(prop.function), prop.fair)
        ruled: list[Action | Invariant | StepProperty | Liveness] = [*self.protocol.actions(), *properties]
        for named in ruled:
            check_conditions(self.protocol, named)

    def taking(self, name: str) -> Definition:
        """The definition restricted to the procedure of this name. Raises InputError if the protocol has none."""
        known = self.protocol.procedures
        if name not in known:
            raise InputError(unknown(f"procedure of {self.name}", name, known))
        protocol, result = taking(self.protocol, known[name])
        return replace(self, protocol=protocol, liveness=(*self.liveness, result), procedure=name)

    @classmethod
    def of(cls, name: str, protocol: type[Protocol], file: Path | None = None) -> Definition:
        """The definition of a protocol with the properties that its class lists.

        A protocol that extends a built-in protocol inherits the invariants, step properties, helpers and goals of the
        built-in protocol. A property that belongs to a rule is left out if the extending protocol lacks the rule.
        """
        base = _extended(protocol)

        def both(of_base: Iterable[_P], own: Iterable[_P]) -> tuple[_P, ...]:
            fitting = [p for p in of_base if p.rule is None or p.rule in protocol.rules]
            return tuple({p.name: p for p in (*fitting, *own)}.values())

        return cls(
            name,
            protocol,
            both(base.invariants if base else (), protocol.invariants),
            file,
            tuple(protocol.liveness),
            both(base.step_properties if base else (), protocol.step_properties),
            both(base.helpers if base else (), protocol.helpers),
            both(base.reachable if base else (), protocol.reachable),
        )


def _extended(protocol: type[Protocol]) -> Definition | None:
    """The definition of the built-in protocol that a class extends; None if it extends none."""
    for kind in protocol.__mro__[1:]:
        ours = issubclass(kind, Protocol) and kind.__module__.startswith(f"{model.__name__}.")
        if ours and (name := vars(kind).get("name")) in registry.NAMES:
            return load(str(name))
    return None


def scenario_files() -> dict[str, Path]:
    """The files of the built-in scenarios, by name."""
    return {scenario_name(path): path for path in sorted(MODELS.rglob("scenarios/*.toml"))}


def scenario_name(path: Path) -> str:
    """The name of the scenario in a file: ``a/b/c`` for ``model/a/b/scenarios/c.toml``."""
    return "/".join((*path.parent.parent.relative_to(MODELS).parts, path.stem))


def scenario_file(name: str) -> Path:
    """The file of the built-in scenario with this name. Raises InputError if there is no such scenario."""
    place, _, stem = name.rpartition("/")
    path = MODELS / place / "scenarios" / f"{stem}.toml"
    if place and ".." not in place and path.is_file():
        return path
    if Path(name).exists():
        raise InputError(f"{name}: not a scenario: a scenario's file ends in .toml, a protocol's file in .py")
    raise InputError(unknown("scenario", name, scenario_files(), "`highwater list` names them"))


@cache
def load(name: str) -> Definition:
    """The definition of the built-in protocol with this name. Raises InputError if there is no such protocol."""
    try:
        protocol = registry.protocol_of(name)
    except ChoiceError as wrong:
        raise InputError(str(wrong)) from None
    known = stated(name)
    return Definition(
        name,
        protocol,
        known.invariants,
        liveness=known.liveness,
        step_properties=known.step_properties,
        helpers=(*known.helpers, *known.helper_steps),
        reachable=known.reachable,
    )


@cache
def definitions() -> tuple[Definition, ...]:
    """The definitions of all built-in protocols."""
    return tuple(load(name) for name in registry.NAMES)


def load_file(path: Path) -> Definition:
    """The definition of the protocol in a Python file: its PROTOCOL, or the only Protocol that it defines.

    Raises InputError if the file is missing, or if it does not determine one protocol. Raises InputError or
    LanguageError for a mistake in the file.
    """
    name = f"{OWN_FILE}{abs(hash(path.resolve()))}"
    file = os.path.abspath(path)  # ``blaming`` recognizes errors in the file by this path
    spec = importlib.util.spec_from_file_location(name, file, loader=AsItIs(name, file))
    if spec is None or spec.loader is None or not path.is_file():
        raise InputError(f"{path}: no such Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with blaming(path), beside(path, name):
        spec.loader.exec_module(module)
    protocol = getattr(module, "PROTOCOL", None)
    if protocol is None:
        own = [
            value
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Protocol) and value.__module__ == name
        ]
        if len(own) != 1:
            count = (
                "no Protocol" if not own else f"{len(own)} Protocols ({', '.join(c.__name__ for c in own)})"
            )
            raise InputError(f"{path}: the file defines {count}; set PROTOCOL to the one that is meant")
        (protocol,) = own
    if not (isinstance(protocol, type) and issubclass(protocol, Protocol)):
        raise InputError(f"{path}: PROTOCOL is not a subclass of Protocol")
    protocol.name = protocol.name or path.stem
    with blaming(path):
        protocol.check()  # again, because the file can have changed the class after its definition
        return Definition.of(protocol.name, protocol, path)


@contextmanager
def blaming(file: Path | None) -> Iterator[None]:
    """Context manager: an exception in the user's ``file`` becomes a one-line InputError with file and line.

    None: there is no such file, and exceptions pass unchanged.
    """
    try:
        yield
    except (InputError, LanguageError, KeyboardInterrupt):
        raise
    except SyntaxError as wrong:
        if file is None or (wrong.filename is not None and not _is_beside(wrong.filename, file)):
            raise
        raise InputError(f"{shortened_file(wrong.filename, file)}:{wrong.lineno or 1}: {wrong.msg}") from None
    except BaseException as wrong:
        # Also SystemExit, which would end this program with the exit status that the file chooses.
        frames = traceback.extract_tb(wrong.__traceback__)
        places = [f for f in frames if file is not None and _is_beside(f.filename, file)]
        if not places or file is None:
            raise
        place = f"{shortened_file(places[-1].filename, file)}:{places[-1].lineno}"
        text = str(wrong).replace("Type.__init__", "").replace(".__init__", "")
        raise InputError(f"{place}: {type(wrong).__name__}: {text}") from wrong


def _is_beside(name: str, file: Path) -> bool:
    """True if a file is the user's own file, or lies in the same folder."""
    if name.startswith("<"):
        return False  # not a file: a frozen module, or code given as text
    whole = os.path.abspath(name)
    return whole == os.path.abspath(file) or Path(whole).parent == file.resolve().parent


def shortened_file(name: str | None, file: Path) -> Path:
    """The path of file ``name`` in the folder of ``file``, relative if ``file`` is relative; None means ``file``."""
    is_itself = name is None or os.path.abspath(name) == os.path.abspath(file)
    return file if is_itself else file.with_name(Path(str(name)).name)


# Rules that no code consults. Switching such a rule changes nothing, so the protocol is refused.
#
# A rule counts as consulted if tracing reads it, if an action or a property exists only under it, or if the
# protocol's files mention its name outside the declarations. A mention is enough, because the code may
# consult the rule only under other rules or parameters than the traced ones.

_OURS = "highwater.model."
"""The prefix of the modules of built-in protocols and of the language."""


def refuse_unconsulted(definition: Definition, traced: Protocol) -> None:
    """Raises LanguageError, with the place, for a rule that no code consults.

    ``traced`` is the protocol after tracing. Rules of built-in protocols, inherited or not, and rules of protocols
    without source files are not checked.
    """
    kind = definition.protocol
    if kind.__module__.startswith(_OURS):
        return
    if definition.file is not None:
        _refuse_useless(definition)
    ours = [b for b in kind.__mro__ if issubclass(b, Protocol) and b.__module__.startswith(_OURS)]
    left = {n for n, rule in kind.rules.items() if not any(base.rules.get(n) is rule for base in ours)}
    listed = (*definition.invariants, *definition.step_properties, *definition.liveness, *definition.helpers)
    left -= traced.consulted | {stated.rule for stated in (*kind.actions(), *listed)}
    if not left or not (files := list(_files(definition))):
        return
    for file in files:
        left -= _mentioned(file)
    for name in sorted(left):
        raise LanguageError(
            f"no code consults the rule {name!r}, so switching it changes nothing; "
            f'write self.on("{name}") or rule="{name}" where it matters, or remove it from `rules`',
            kind.rules[name].place or place_of(kind),
        )


def _refuse_useless(definition: Definition) -> None:
    """Raises LanguageError for code of the user's file without effect, such as an action that is not decorated."""
    kind = definition.protocol
    listed = (*definition.invariants, *definition.step_properties, *definition.liveness, *definition.helpers)
    stated = {*(getattr(p, "mapping", p.function) for p in (*kind.actions(), *listed, *definition.reachable))}
    for function in stated:
        if function.__module__ == kind.__module__:
            refuse_useless(function)
    text = "".join(file.read_text(encoding="utf-8", errors="replace") for file in _files(definition))
    for name, value in {**vars(sys.modules[kind.__module__]), **vars(kind)}.items():
        if not isinstance(value, FunctionType) or value in stated or hasattr(kind.__base__, name):
            continue
        own = value.__module__ == kind.__module__ and not name.startswith("_")
        of_state = value.__code__.co_varnames[1:2] in (("s",), ("before",))
        if own and of_state and len(re.findall(rf"\b{name}\b", text)) == 1:
            raise LanguageError(
                f"nothing uses {name!r}: mark it by @action(…) or as a property, or call it _{name}",
                place_of(value),
            )


def _files(definition: Definition) -> Iterator[Path]:
    """The source files of a protocol: its own, and those that it imports from its folder or package."""
    if definition.file is not None:
        yield definition.file
        yield from imported_by(definition.protocol.__module__).values()
        return
    module = sys.modules.get(definition.protocol.__module__)
    own = getattr(module, "__file__", None)
    if module is None or own is None:
        return
    package, folder = module.__name__.partition(".")[0], Path(own).parent
    for name, other in list(sys.modules.items()):
        file = getattr(other, "__file__", None)
        if file and (name.partition(".")[0] == package or Path(file).parent == folder):
            yield Path(file)


def _mentioned(file: Path) -> set[str]:
    """All string constants of a file, except the keys of ``rules = {…}`` and the arguments of a Profile."""
    try:
        left: list[ast.AST] = [ast.parse(file.read_bytes())]
    except (OSError, SyntaxError, ValueError):
        return set()
    found: set[str] = set()
    while left:
        node = left.pop()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("Profile", "Profile.of"):
            continue
        elif (
            isinstance(node, (ast.Assign, ast.AnnAssign))
            and isinstance(node.value, ast.Dict)
            and _is_rules(node)
        ):
            left += node.value.values
        else:
            left += ast.iter_child_nodes(node)
    return found


def _is_rules(node: ast.Assign | ast.AnnAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(target, ast.Name) and target.id == "rules" for target in targets)
