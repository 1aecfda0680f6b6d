"""The baseline: a TOML file with the entries to run and their facts, one fact per line.

People write ``[select]``: the scenarios and proofs of the baseline. ``highwater gate --update`` writes the rest in a
fixed order, so a diff of two versions shows the changed facts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from highwater.checker.base import files
from highwater.checker.base.problems import InputError
from highwater.checker.comparing.gate.entries import (
    NUMBERS,
    PROOF,
    PROTOCOL,
    SCENARIO,
    TABLES,
    Facts,
    GateEntry,
    protocols_of,
)
from highwater.checker.scenarios import scenario_files
from highwater.model.names import unknown

DEFAULT = Path(".highwater") / "gate.toml"
FORMAT = 1
STANDARD = "standard"
"""In a selection: the scenarios of ``highwater check`` without arguments."""

_HEAD = """\
# What `highwater gate` holds the protocol to: see docs/gate.md. The tables of facts are written by
# `highwater gate --update`; a change of one of them is a change of what is promised. [select] is yours.
"""
_FACTS = {SCENARIO: "scenarios", PROOF: "proofs", PROTOCOL: "protocols"}
"""For each kind of entries, the table of a baseline that has their facts."""
_PROOF_KEYS: dict[str, type[Any]] = {"scenario": str, "epochs": str, "parameters": dict, "rules": dict}


def sort_key(key: tuple[str, str]) -> tuple[int, str]:
    """A sort key of entries: scenarios, then proofs, then protocols, by name."""
    return list(_FACTS).index(key[0]), key[1]


@dataclass
class Selection:
    """The entries that belong to a baseline: names, globs or paths of scenarios with their protocols, and proofs.

    ``without`` has patterns of scenarios that are left out.
    """

    scenarios: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    proofs: dict[str, dict[str, Any]] = field(default_factory=dict)

    def entries(self, root: Path) -> list[GateEntry]:
        """The entries that the selection names; ``root`` is the directory of relative paths."""
        titles = scenario_files.titles()
        found = {name for pattern in self.scenarios for name in _matching(pattern, root, titles)}
        chosen = [n for n in found if not any(fnmatchcase(n, pattern) for pattern in self.without)]
        scenarios = [GateEntry.of_scenario(n, root) for n in sorted(chosen)]
        return [*scenarios, *self._proofs(root), *protocols_of(scenarios)]

    def unmatched(self, root: Path) -> str | None:
        """A selected name or pattern that matches no scenario; None if all match."""
        titles = scenario_files.titles()
        return next((pattern for pattern in self.scenarios if not _matching(pattern, root, titles)), None)

    def _proofs(self, root: Path) -> Iterator[GateEntry]:
        for name, table in sorted(self.proofs.items()):
            yield GateEntry(
                PROOF,
                name,
                table["scenario"],
                root,
                table.get("parameters", {}),
                table.get("rules", {}),
                table.get("epochs") == "unbounded",
            )


def _matching(pattern: str, root: Path, titles: Mapping[str, tuple[str, bool]]) -> list[str]:
    """The names of the scenarios that a name, a glob or a path selects. Raises InputError for an unusable glob."""
    if pattern == STANDARD:
        return [name for name, (_, standard) in titles.items() if standard]
    if pattern.endswith(".toml"):
        try:
            paths = list(root.glob(pattern)) if re.search(r"[*?[]", pattern) else [root / pattern]
        except (ValueError, NotImplementedError):  # an absolute pattern; `**` beside other signs
            raise InputError(f"{pattern}: no pattern of paths below {root}") from None
        return [str(p.relative_to(root) if p.is_relative_to(root) else p) for p in paths]
    return [name for name in titles if fnmatchcase(name, pattern)]


@dataclass
class Baseline:
    """A baseline file. ``facts`` has the facts of each entry, by (kind, name).

    ``engine`` is the fingerprint of the engine that gave the facts.
    """

    path: Path
    select: Selection
    engine: str | None = None
    facts: dict[tuple[str, str], Facts] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        """The directory that the baseline's relative paths start from.

        It is the directory of the baseline file or, if this directory is named ``.highwater``, its parent.
        """
        parent = self.path.absolute().parent
        return parent.parent if parent.name == DEFAULT.parent.name else parent

    def entries(self) -> list[GateEntry]:
        """The entries that have facts, without proofs and protocols that [select] no longer lists."""
        selected = {e.key: e for e in self.select.entries(self.root)}
        return [
            GateEntry.of_scenario(key[1], self.root) if key[0] == SCENARIO else selected[key]
            for key in self.facts
            if key[0] == SCENARIO or key in selected
        ]

    def text(self) -> str:
        """The text of the baseline file."""
        return "\n".join(_lines(self)).rstrip() + "\n"


def read(path: Path) -> Baseline:
    """Read a baseline file. Raises InputError, with the file and the key, if it is missing or invalid."""
    try:
        table = files.read_toml(path)
    except FileNotFoundError:
        raise InputError(
            f"{path}: there is no baseline; `highwater gate --update --baseline {path} SCENARIO…` writes one"
        ) from None
    _known(
        path,
        "key",
        table,
        {"format": int, "engine": str, "source": str, "select": dict, **dict.fromkeys(_FACTS.values(), dict)},
    )
    if table.get("format") != FORMAT:
        raise InputError(f"{path}: format: {FORMAT} is the one that is known, not {table.get('format')!r}")
    select = table.get("select", {})
    _known(path, "key in [select]", select, {"scenarios": list, "without": list, "proofs": dict})
    proofs = select.get("proofs", {})
    for name, proof in proofs.items():
        where = f"key in [select.proofs.{name}]"
        if not isinstance(proof, dict):
            raise InputError(f"{path}: select.proofs.{name}: a table is expected")
        _known(path, where, proof, _PROOF_KEYS)
        if "scenario" not in proof:
            raise InputError(f"{path}: select.proofs.{name}: the key 'scenario' is missing")
        if proof.get("epochs", "bounded") not in ("bounded", "unbounded"):
            raise InputError(f"{path}: select.proofs.{name}: epochs is 'bounded' or 'unbounded'")
        for rule, on in proof.get("rules", {}).items():
            if not isinstance(on, bool):
                raise InputError(f"{path}: select.proofs.{name}: rules.{rule} is true or false, not {on!r}")
    facts: dict[tuple[str, str], Facts] = {}
    for kind, key in _FACTS.items():
        for name, found in table.get(key, {}).items():
            facts[kind, name] = _facts(path, f"{key}.{name}", found)
    selection = Selection(
        _names(path, "scenarios", select.get("scenarios", [])),
        _names(path, "without", select.get("without", [])),
        proofs,
    )
    return Baseline(path, selection, table.get("engine"), facts)


def _facts(path: Path, where: str, found: Any) -> Facts:
    if not isinstance(found, dict):
        raise InputError(f"{path}: {where}: a table is expected")
    for key, value in found.items():
        values = value.values() if isinstance(value, dict) else [value]
        if isinstance(value, dict) != (key in TABLES) or not all(
            isinstance(v, (str, int, bool)) for v in values
        ):
            raise InputError(f"{path}: {where}: {key} is not a fact")
        for number in values if key in NUMBERS else ():
            if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                raise InputError(f"{path}: {where}: {key}: a whole number is expected, not {number!r}")
    if not isinstance(found.get("verdict"), str):
        raise InputError(f"{path}: {where}: the fact 'verdict' is missing")
    return found


def _known(path: Path, where: str, table: Mapping[str, Any], kinds: Mapping[str, type[Any]]) -> None:
    for key, value in table.items():
        if key not in kinds:
            raise InputError(f"{path}: {unknown(where, key, kinds)}")
        if not isinstance(value, kinds[key]) or isinstance(value, bool):
            raise InputError(f"{path}: {key}: {kinds[key].__name__} is expected, not {value!r}")


def _names(path: Path, key: str, values: Iterable[Any]) -> list[str]:
    names = list(values)
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"{path}: select.{key}: a name is a text, not {name!r}")
    return names


# --- writing --------------------------------------------------------------------------------------


def _lines(baseline: Baseline) -> Iterator[str]:
    yield _HEAD
    yield f"format = {FORMAT}"
    if baseline.engine:
        yield f"engine = {_value(baseline.engine)}"
    yield "\n[select]"
    for key, values in (("scenarios", baseline.select.scenarios), ("without", baseline.select.without)):
        if values:
            yield f"{key} = ["
            yield from (f"    {_value(v)}," for v in values)
            yield "]"
    for name, proof in sorted(baseline.select.proofs.items()):
        yield f"\n[select.proofs.{_key(name)}]"
        for key in _PROOF_KEYS:
            value = proof.get(key)
            if isinstance(value, dict):
                yield from (f"{key}.{_key(k)} = {_value(v)}" for k, v in sorted(value.items()))
            elif value is not None:
                yield f"{key} = {_value(value)}"
    for (kind, name), facts in sorted(baseline.facts.items(), key=lambda item: sort_key(item[0])):
        yield f"\n[{_FACTS[kind]}.{_key(name)}]"
        for key, value in facts.items():
            if not isinstance(value, dict):
                yield f"{key} = {_value(value)}"
        for key in TABLES:
            yield from (f"{key}.{_key(k)} = {_value(v)}" for k, v in sorted(facts.get(key, {}).items()))


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
