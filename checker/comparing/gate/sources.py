"""The effect of each change of the protocols' source, even if no model differs.

If tracing all models of the gate does not execute the changed code, no scenario covers the code. A changed table of
data is always executed: if no model differs, no scenario depends on the change.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import highwater
from highwater.checker.base.problems import InputError
from highwater.checker.comparing.gate.comparison import EntryState, EntryVerdict
from highwater.checker.comparing.gate.entries import GateEntry
from highwater.checker.comparing.models.revisions import Revision
from highwater.checker.comparing.models.texts import CodePiece, TextChange, changed
from highwater.checker.scenarios.catalogue import Definition
from highwater.checker.scenarios.user_code import imported_by

FOLDERS = ("model", "invariants")
"""The folders of the built-in protocols."""
LANGUAGE = "model/language/"
"""The folder of the modelling language, which is not part of a protocol's source."""


class Effect(StrEnum):
    """The effect of a source change on the entries of a gate."""

    SAME_GRAPH = "same graph"
    EQUIVALENT = "other expressions, which do the same in every state"
    UNREACHED = "differs only where no scenario goes"
    NO_SCENARIO = "no scenario has this code"
    DIFFERENT = "different"
    UNKNOWN = "not known: not everything was run"


Key = tuple[str, str]
STRICT = (Effect.UNREACHED, Effect.NO_SCENARIO)
"""The effects that fail only a strict gate."""


def digest(tree: Path, own: Collection[str]) -> str:
    """A fingerprint of the protocols' source in the folder ``tree``.

    ``own`` are the folders of the user's protocols.
    """
    found = blake2b(digest_size=10)
    for name in _files(tree, own):
        found.update(f"{name}\0{(tree / name).read_text(encoding='utf-8', errors='replace')}\0".encode())
    return found.hexdigest()


def _files(tree: Path, own: Iterable[str]) -> list[str]:
    paths = [p for folder in FOLDERS for p in (tree / folder).rglob("*.py")]
    paths += [p for folder in own for p in (tree / folder).glob("*.py")]
    names = {p.relative_to(tree).as_posix() for p in paths}
    return sorted(name for name in names if not name.startswith(LANGUAGE))


def own_folders(entries: Iterable[GateEntry], root: Path) -> list[str]:
    """The folders that hold the user's protocols, relative to ``root``."""
    own = [entry for entry in entries if entry.scenario.endswith(".toml")]
    files = {d.file.parent.resolve() for d in definitions(own) if d.file is not None}
    return sorted(f.relative_to(root.resolve()).as_posix() for f in files if f.is_relative_to(root.resolve()))


def effect_of_graph(verdict: EntryVerdict, equivalent: Collection[str]) -> Effect:
    """The effect of the source changes on one entry.

    ``equivalent`` has the scenarios whose expressions changed, but provably have the same values in every state.
    """
    if verdict.state in (EntryState.FAILED, EntryState.NOT_RUN):
        return Effect.UNKNOWN
    if not verdict.graph_changed:
        return Effect.SAME_GRAPH
    if not verdict.passes:
        return Effect.DIFFERENT
    return Effect.EQUIVALENT if verdict.entry.name in equivalent else Effect.UNREACHED


def _name(definition: Definition) -> str:
    return definition.name if definition.file is None else str(definition.file)


def definitions(entries: Iterable[GateEntry]) -> Iterator[Definition]:
    """The protocol of each entry, without entries whose scenario is unreadable: such an entry fails when it runs."""
    for entry in entries:
        try:
            yield entry.found().definition
        except InputError:
            continue


def files_of(definition: Definition, root: Path) -> set[str]:
    """The source files below ``root`` that define a protocol and its properties, without the language's files."""
    kinds: tuple[Iterable[Any], ...] = (definition.invariants, definition.step_properties)
    kinds += (definition.liveness, definition.helpers, definition.reachable)
    stated = [one for kind in kinds for one in kind]
    modules = {kind.__module__ for kind in definition.protocol.__mro__}
    modules |= {getattr(s.function, "__module__", "") for s in stated}
    files = [getattr(sys.modules.get(name), "__file__", None) for name in modules]
    paths = {Path(file) for file in files if file}
    paths |= set(imported_by(definition.protocol.__module__).values())
    left, known = [p.resolve() for p in paths], set[Path]()
    while left:
        path = left.pop()
        if path not in known:
            known.add(path)
            left += _imports(path)
    names = {p.relative_to(root.resolve()).as_posix() for p in known if p.is_relative_to(root.resolve())}
    return {name for name in names if not name.startswith(LANGUAGE)}


@cache
def _imports(path: Path) -> list[Path]:
    """The files in ``FOLDERS`` that a file imports."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError):  # executing it reports the error
        return []
    found: list[Path] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            if top == highwater.__name__ and rest.split(".")[0] in FOLDERS:
                place = Path(highwater.__file__).parent.joinpath(*rest.split("."))
                files = (place.with_suffix(".py"), place / "__init__.py")
                found += (p.resolve() for p in files if p.is_file())
    return found


class SourceChanges:
    """The source changes since another revision, with the effect of each on the baseline's entries."""

    def __init__(self, old: Revision, root: Path, verdicts: Sequence[EntryVerdict]) -> None:
        self.old, self.now = old, Revision.present(root)
        defined = [(v, d) for v in verdicts for d in definitions([v.entry])]
        self.verdicts = [(v, _name(d)) for v, d in defined]
        named = {_name(d): d for _, d in defined}
        self.files = {name: files_of(definition, root) for name, definition in named.items()}
        everything = set[str]().union(*self.files.values())
        folders = {Path(name).parent.as_posix() for name in everything}
        there = [name for name in _files(old.root, folders) if Path(name).parent.as_posix() in folders]
        self.texts = changed(old.root, root, everything.union(n for n in there if not (root / n).exists()))

    def judge(self, equivalent: Collection[str], old_names: Mapping[Key, str]) -> list[TextChange]:
        """Determine the effect of each change, and return the changes.

        ``equivalent`` has the scenarios whose expressions changed, but provably have the same values in every
        state.
        """
        with ThreadPoolExecutor() as pool:
            before = pool.submit(self._not_executed, self.old, "before", old_names)
            now = self._not_executed(self.now, "now", {})
        for change in self.texts:
            change.unused = _lines(change.now, now.get(change.file, set()))
            change.unused_before = _lines(change.before, before.result().get(change.file, set()))
            effects = {effect_of_graph(v, equivalent) for v in self._verdicts({change.file})}
            if change.same_code:
                change.effect = Effect.SAME_GRAPH
            elif change.unused or change.unused_before or (change.data and effects == {Effect.SAME_GRAPH}):
                change.effect = Effect.NO_SCENARIO
            else:
                change.effect = max(effects, key=list(Effect).index, default=Effect.NO_SCENARIO)
        return self.texts

    def _verdicts(self, files: Collection[str]) -> list[EntryVerdict]:
        """The verdicts of the entries whose protocols use one of the files.

        If no protocol uses one of the files, because this file is gone, all verdicts are returned.
        """
        own = {name for name, those in self.files.items() if not those.isdisjoint(files)}
        everything = set[str]().union(*self.files.values())
        return [v for v, name in self.verdicts if name in own or not everything.issuperset(files)]

    def _not_executed(
        self, revision: Revision, side: str, names: Mapping[Key, str]
    ) -> dict[str, set[CodePiece]]:
        pieces: dict[str, set[CodePiece]] = {}
        for change in self.texts:
            if own := getattr(change, side):
                pieces.setdefault(change.file, set()).update(own)
        asked = [v.entry.asked(names.get(v.entry.key)) for v in self._verdicts(pieces)]
        return revision.not_executed(pieces, asked)


def _lines(pieces: Iterable[CodePiece], left: Collection[CodePiece]) -> tuple[int, ...]:
    return tuple(sorted({piece.line for piece in pieces if piece in left}))
