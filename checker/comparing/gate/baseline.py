"""The baseline, a TOML file with the entries to run and their facts; and the comparison of entries with it.

People write ``[select]``: the scenarios and proofs of the baseline. ``highwater gate --update`` writes the rest, one
fact per line, in a fixed order, so a diff of two versions shows the changed facts.

A missing name counts as renamed if a new name has the same facts, and one of two conditions holds. Either the model's
fingerprint, which contains no names, equals the baseline's, or all facts except names are equal.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from highwater.checker.base import files
from highwater.checker.base.memory import available_memory
from highwater.checker.base.problems import InputError
from highwater.checker.base.processes import Pool, ProcessEnded, Say, cores
from highwater.checker.comparing.gate.entries import (
    EXPRESSIONS,
    NUMBERS,
    PROOF,
    PROTOCOL,
    SCENARIO,
    TABLES,
    Facts,
    GateEntry,
    Ran,
    fingerprint,
    protocols_of,
    run,
    run_image,
)
from highwater.checker.comparing.revisions import Image
from highwater.checker.runner import LiveLine, Reuse
from highwater.checker.scenarios import scenario_files
from highwater.errors import unknown

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


GRAPH = "graph"
"""The key of the model's fingerprint. This fact may change without being a difference."""

KINDS = {
    "actions": "action",
    "premises": "property",
    "violated": "property",
    "reachable": "goal",
    "cut": "bound",
    "properties": "property",
}


class EntryState(StrEnum):
    """The result of comparing an entry. DIFFERENT, FAILED and NOT_RUN do not pass.

    CHANGED, the state of a protocol with other expressions, passes unless the gate is strict.
    """

    SAME = "same"
    RENAMED = "renamed"
    CHANGED = "changed"
    DIFFERENT = "different"
    FAILED = "failed"
    NOT_RUN = "not run"
    SKIPPED = "unchanged"
    UPDATED = "updated"


@dataclass(frozen=True)
class Difference:
    """A fact that differs between the baseline and a result.

    ``before`` is the baseline's value, ``after`` the result's; None if one of them lacks the fact. ``table`` is the
    table of the baseline that has the fact, or "" if it is in no table.
    """

    table: str
    name: str
    before: Any
    after: Any

    def __str__(self) -> str:
        if self.table == EXPRESSIONS:
            change = (
                "is new"
                if self.before is None
                else "is gone"
                if self.after is None
                else "has other expressions"
            )
            return f"{self.name} {change}"
        what = f"{KINDS[self.table]} {self.name}" if self.table else self.name
        done = {"violated": "violated", "reachable": "reached"}.get(self.table)
        match self.table, self.before, self.after:
            case (_, None, depth) if done:
                return f"{what} is {done} at depth {depth}, and was not"
            case (_, depth, None) if done:
                return f"{what} is not {done} any more (it was at depth {depth})"
            case (_, before, depth) if done:
                return f"{what} is {done} at depth {depth}, not {before}"
            case (_, None, after):
                return f"{what} is new: {_say(after, self.table)}"
            case (_, before, None):
                return f"{what} is gone: it was {_say(before, self.table)}"
            case ("actions", before, 0):
                return f"{what} is never taken any more (it was taken {before:,} times)"
            case ("premises", before, 0):
                return f"{what} is vacuous now (its premise held in {before:,} states or steps)"
        return f"{what}: {_say(self.before, self.table)} → {_say(self.after, self.table)}"


def _say(value: Any, table: str = "") -> str:
    if not isinstance(value, int) or isinstance(value, bool):
        return str(value)
    unit = {"actions": " times taken", "premises": " states or steps", "cut": " steps cut"}.get(table, "")
    return f"{value:,}{unit}"


@dataclass
class EntryVerdict:
    """An entry with the state of its comparison. ``renamed`` lists (kind, name before, name after)."""

    entry: GateEntry
    state: EntryState
    before: Facts | None = None
    ran: Ran = field(default_factory=Ran)
    differences: list[Difference] = field(default_factory=list)
    renamed: list[tuple[str, str, str]] = field(default_factory=list)
    note: str = ""

    @property
    def graph_changed(self) -> bool:
        """True if the model's fingerprint differs from the baseline's; False if the entry has no facts to compare."""
        facts = self.ran.facts
        return facts is not None and self.before is not None and facts.get(GRAPH) != self.before.get(GRAPH)

    @property
    def passes(self) -> bool:
        """True if every fact of the baseline still holds, or the entry was skipped or updated."""
        return self.state in (EntryState.SAME, EntryState.RENAMED, EntryState.SKIPPED, EntryState.UPDATED)


def compare(entry: GateEntry, before: Facts, ran: Ran | None) -> EntryVerdict:
    """Compare the result of an entry (None: not run) with its facts in the baseline."""
    if ran is None:
        return EntryVerdict(entry, EntryState.NOT_RUN, before, note="the budget was used up")
    if ran.error is not None:
        return EntryVerdict(entry, EntryState.FAILED, before, ran, note=ran.error)
    if ran.facts is None:
        return EntryVerdict(entry, EntryState.NOT_RUN, before, ran, note=f"stopped: {ran.stopped}")
    renamed = renamings(before, ran.facts)
    found = list(differences(before, ran.facts, {(t, old): new for t, old, new in renamed}))
    if found and before.get(GRAPH) != ran.facts.get(GRAPH):
        # Other facts differ too, so equal numbers do not prove a renaming.
        renamed, found = [], list(differences(before, ran.facts, {}))
    state = (
        EntryState.DIFFERENT if found or ran.broken else EntryState.RENAMED if renamed else EntryState.SAME
    )
    if entry.kind == PROTOCOL and found:
        state = EntryState.CHANGED
    names = list(dict.fromkeys(_renamed(*triple) for triple in renamed))
    return EntryVerdict(entry, state, before, ran, found, names, "; ".join(ran.broken))


def _renamed(table: str, old: str, new: str) -> tuple[str, str, str]:
    if table != EXPRESSIONS:
        return KINDS[table], old, new
    kind, _, name = old.partition(" ")
    return kind, name, new.partition(" ")[2]


def renamings(before: Facts, after: Facts) -> list[tuple[str, str, str]]:
    """Triples (table, missing name, new name) in which both names have the same facts.

    A table has triples only if all its missing names can be paired with all its new names in this way.
    """
    found = []
    for table in TABLES:
        old, new = before.get(table, {}), after.get(table, {})
        gone = sorted((n for n in old if n not in new), key=lambda n: (str(old[n]), n))
        come = sorted((n for n in new if n not in old), key=lambda n: (str(new[n]), n))
        if gone and [old[n] for n in gone] == [new[n] for n in come]:
            found += [(table, a, b) for a, b in zip(gone, come, strict=True)]
    return found


def differences(before: Facts, after: Facts, renamed: Mapping[tuple[str, str], str]) -> list[Difference]:
    """The facts that differ, apart from renamed names and the model's fingerprint.

    A verdict determines which facts exist. If the verdicts differ, only ``violated``, ``reachable`` and the facts that
    exist on both sides are compared.
    """
    keys = list(dict.fromkeys([*before, *after]))
    if before.get("verdict") != after.get("verdict"):
        keys = [key for key in keys if (key in before and key in after) or key in ("violated", "reachable")]
    found = [
        Difference("", key, before.get(key), after.get(key))
        for key in keys
        if key != GRAPH and key not in TABLES and before.get(key) != after.get(key)
    ]
    for table in (key for key in TABLES if key in keys):
        old = {renamed.get((table, n), n): v for n, v in before.get(table, {}).items()}
        new = after.get(table, {})
        found += [
            Difference(table, n, old.get(n), new.get(n))
            for n in sorted({*old, *new})
            if old.get(n) != new.get(n)
        ]
    return found


class GateInterrupted(Exception):
    """Ctrl-C ended the gate. The results so far are still reported."""


Entries = Sequence[tuple[GateEntry, Image | None]]
"""Entries to run; an entry with an image runs the model of another revision."""


def run_all(
    entries: Entries,
    *,
    processes: int | None = None,
    budget: float | None = None,
    quiet: bool = False,
    reuse: Reuse = Reuse.NEVER,
) -> Iterator[tuple[GateEntry, Ran | None]]:
    """Start entries in order, and yield each with its result when it ends.

    At the end, yield entries that did not begin within ``budget`` seconds, each with None. Raises GateInterrupted on
    Ctrl-C.
    """
    yield from _in_processes(partial(_run, reuse), "run", entries, processes, budget, quiet)


def fingerprints(
    entries: Sequence[GateEntry], *, processes: int | None = None, quiet: bool = False
) -> dict[tuple[str, str], str | None]:
    """The fingerprint of each entry's model, by the entry's key; None if the model cannot be traced."""
    jobs = [(entry, None) for entry in entries]
    return {e.key: found for e, found in _in_processes(_traced, "traced", jobs, processes, None, quiet)}


_Job = tuple[GateEntry, Image | None, float | None, int]
"""An entry, its image, the remaining seconds, and the bytes of memory that it may use."""


def _in_processes(
    do: Callable[[_Job, Say], Any],
    word: str,
    entries: Entries,
    processes: int | None,
    budget: float | None,
    quiet: bool,
) -> Iterator[tuple[GateEntry, Any]]:
    deadline = None if budget is None else time.perf_counter() + budget
    count = min(len(entries), processes or cores())
    memory = int(available_memory() * 0.8) // max(1, count)
    begun = done = 0

    def jobs() -> Iterator[_Job]:
        nonlocal begun
        for entry, image in entries:
            seconds = None if deadline is None else deadline - time.perf_counter()
            if seconds is not None and seconds <= 0:
                return
            begun += 1
            yield entry, image, seconds, memory

    live = LiveLine(quiet=quiet)
    with Pool(do) as pool:
        try:
            for news in pool.run(jobs(), count, every=0.5):
                under_way = ", ".join(entry.name for entry, *_ in pool.under_way())
                live(f"gate: {done} of {len(entries)} {word}", under_way)
                if news is None:
                    continue
                done += 1
                found = news.value
                if isinstance(found, ProcessEnded):
                    found = Ran(error="its process was ended, perhaps for its memory")
                elif isinstance(found, BaseException):
                    raise found
                yield news.job[0], found
            yield from ((entry, None) for entry, _ in entries[begun:])
        except KeyboardInterrupt:
            raise GateInterrupted from None
        finally:
            live.end()


def _run(reuse: Reuse, job: _Job, say: Say) -> Ran:
    entry, image, seconds, memory = job
    return run(entry, seconds, memory, reuse) if image is None else run_image(image, seconds, memory)


def _traced(job: _Job, say: Say) -> str | None:
    return fingerprint(job[0])
