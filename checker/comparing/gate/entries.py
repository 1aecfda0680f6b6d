"""The entries of a gate (scenarios, proofs and protocols): how they are run, and the facts of the results."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import highwater
from highwater.checker import runner
from highwater.checker.base.problems import InputError, InternalError
from highwater.checker.comparing.revisions import (
    Image,
    ImageRequest,
    RestoredModel,
    UnknownImageError,
)
from highwater.checker.engines import by_name as engines
from highwater.checker.engines import cache
from highwater.checker.report import counterexample
from highwater.checker.report.results import NOT_REACHED, REACHED
from highwater.checker.runner import Reuse
from highwater.checker.scenarios import catalogue, model_key, scenario_files
from highwater.checker.scenarios.catalogue import Definition
from highwater.checker.scenarios.model_key import KEPT, by_action
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.scenario_files import Scenario
from highwater.checker.scenarios.search import SearchOptions, SearchResult, ViolatingRun
from highwater.model.language import (
    Invariant,
    LanguageError,
    Liveness,
    Model,
    Parameter,
    Protocol,
    StepProperty,
)
from highwater.model.language.model import trace_liveness, trace_step_property

STATE = "state"
"""The part that has the fields and the initial states."""


def digests(definition: Definition) -> dict[str, str]:
    """A digest of each part of a protocol: its state, ``action NAME`` and ``property NAME``.

    A digest has the different expressions of the part in all widest models. It contains no names, and does not change
    if a new model repeats known expressions.
    """
    found: dict[str, set[str]] = defaultdict(set)
    kinds = definition.invariants, definition.step_properties, definition.liveness
    stated = {p.name: p for kind in (*kinds, definition.helpers, definition.reachable) for p in kind}
    for parameters, rules in variants(definition.protocol):
        try:
            model = Model(definition.protocol(parameters, rules))
            found[STATE].add(_start(model))
        except LanguageError:  # these values do not go together
            continue
        for name, own in by_action(model).items():
            found[f"action {name}"].add(KEPT.action(own))
        for name, prop in stated.items():
            if model.protocol.has(prop):
                found[f"property {name}"].add(_property(model, prop))
    return {part: _digest(*sorted(own)) for part, own in sorted(found.items())}


def variants(protocol: type[Protocol]) -> Iterator[tuple[Mapping[str, int], frozenset[str]]]:
    """The parameters and rules of the widest models.

    Options are on and budgets above zero, with all rules, no rules, and the rules of each profile. The last model has
    options off, with all rules.
    """
    known, every = protocol.parameters, frozenset(protocol.rules)
    wide = {name: _wide(parameter) for name, parameter in known.items()}
    profiles = (frozenset(profile.rules) for profile in protocol.profiles.values())
    for rules in dict.fromkeys((every, frozenset[str](), *profiles)):
        yield wide, rules
    yield {name: parameter.low for name, parameter in known.items() if parameter.is_switch}, every


def _wide(parameter: Parameter) -> int:
    """The value of a parameter that adds most: the last of few choices, or at least 1."""
    if parameter.default == parameter.low and parameter.high - parameter.low <= 2:
        return parameter.high
    return max(parameter.default, min(parameter.high, 1))


def _start(model: Model) -> str:
    start = model.start
    assert start is not None
    families = sorted(f"{f.scalars}{[(p.start, p.choices) for p in f.parts]}" for f in start.families)
    leaves = (f"{leaf.sort}:{leaf.low}:{leaf.high}" for leaf in model.leaves)
    return _digest(*leaves, *families, KEPT.node(start.condition))


def _property(model: Model, stated: Invariant | StepProperty | Liveness) -> str:
    try:
        if isinstance(stated, Invariant):
            return KEPT.property(model.trace_invariant(stated))
        if isinstance(stated, StepProperty):
            return KEPT.step_property(trace_step_property(model, stated))
        return KEPT.liveness(model, trace_liveness(model, stated))
    except LanguageError:  # it has no meaning with these values
        return ""


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=10).hexdigest()


SCENARIO, PROOF, PROTOCOL = "scenario", "proof", "protocol"


@dataclass(frozen=True)
class GateEntry:
    """A scenario or a proof to run, or the protocol of a scenario to trace.

    ``scenario`` is a name, or a path below ``root`` that ends in ``.toml``.
    A proof's ``parameters`` and ``rules`` override the scenario's. With ``unbounded``, numbers that a parameter bounds
    have no bound (``highwater prove --epochs unbounded``).
    """

    kind: str
    name: str
    scenario: str
    root: Path
    parameters: Mapping[str, int] = field(default_factory=dict)
    rules: Mapping[str, bool] = field(default_factory=dict)
    unbounded: bool = False

    def __post_init__(self) -> None:
        """Raises InputError for a scenario outside the root, because its protocol would be executed."""
        if self.scenario.endswith(".toml"):
            catalogue.refuse_foreign(self.root / self.scenario, self.root, self.name)

    @classmethod
    def of_scenario(cls, name: str, root: Path) -> GateEntry:
        """The entry of a scenario that is run without overrides."""
        return cls(SCENARIO, name, name, root)

    @property
    def key(self) -> tuple[str, str]:
        """The pair (kind, name) that identifies the entry."""
        return self.kind, self.name

    @property
    def argument(self) -> str:
        """The scenario as an argument of a command: its name, or its path."""
        return str(self.root / self.scenario) if self.scenario.endswith(".toml") else self.scenario

    def image_request(self) -> ImageRequest:
        """The request for an image of the entry's model in another revision."""
        over = {"parameters": dict(self.parameters), "rules": dict(self.rules), "proof": self.kind == PROOF}
        return {"scenario": self.scenario, **over}

    def request(self) -> Request:
        """The request that the entry runs. Raises InputError if the scenario, or a name in it, does not exist."""
        return Request.of(self.found(), Overrides(dict(self.parameters), dict(self.rules)))

    def found(self) -> Scenario:
        """The entry's scenario. A path is resolved below ``root``. Raises InputError if there is no such scenario."""
        if self.scenario.endswith(".toml"):
            return scenario_files.read(self.root / self.scenario, self.scenario)
        return scenario_files.find(self.scenario)


def protocols_of(entries: Iterable[GateEntry]) -> list[GateEntry]:
    """The entry of each protocol that has one of these scenarios."""
    found: dict[str, GateEntry] = {}
    for entry in entries:
        with suppress(InputError):  # running the scenario reports it
            definition = entry.found().definition
            own = definition.file and definition.file.resolve()
            root = entry.root.resolve()
            name = str(own.relative_to(root)) if own and own.is_relative_to(root) else definition.name
            if name not in found or not definition.procedure:
                found[name] = GateEntry(PROTOCOL, name, entry.scenario, entry.root)
    return list(found.values())


def rules_on_nowhere(entries: Sequence[GateEntry]) -> list[str]:
    """A line for each protocol that has rules which are on in no profile and in no entry."""
    protocols: dict[str, type[Protocol]] = {}
    on: dict[str, set[str]] = {}
    for entry in entries:
        try:
            request = entry.request()
        except InputError:  # running the entry reports it
            continue
        name = request.scenario.definition.name
        protocols[name] = request.scenario.protocol
        on.setdefault(name, set()).update(rule for rule, is_on in request.rules.items() if is_on)
    found = []
    for name, protocol in sorted(protocols.items()):
        somewhere = on[name].union(*(profile.rules for profile in protocol.profiles.values()))
        rules = [f"{rule} ({r.source})" for rule, r in protocol.rules.items() if rule not in somewhere]
        if rules:
            found.append(f"{name}: on in no profile and in nothing that is run here: {', '.join(rules)}")
    return found


Facts = dict[str, Any]
"""The facts of an entry by key: texts, numbers and truth values, or tables of them by name. A scenario has its verdict,
its numbers of states and levels, and the model's fingerprint. If all properties hold and all states were explored, it
also has the other counts of the search; if not, the depth of each violated property. ``reachable`` has the depth of
each reached goal. A proof has its verdict, the model's fingerprint, and the actions that do not preserve each
property. A protocol has the digests of its widest models."""

EXPRESSIONS = "expressions"
TABLES = ("violated", "reachable", "actions", "premises", "cut", "properties", EXPRESSIONS)
"""The keys whose value is a table. The keys of a table are names of properties, actions or bounds; those of
EXPRESSIONS are parts of a protocol."""
NUMBERS = (
    "distinct_states",
    "depth",
    "generated_states",
    "violated",
    "reachable",
    "actions",
    "premises",
    "cut",
)
"""The keys whose value is a whole number, or a table of whole numbers."""


@dataclass
class Ran:
    """The result of an entry: its facts, an ``error`` of the protocol or scenario, or the limit that ``stopped`` it.

    ``runs`` are the runs to violations and goals as text, by property; ``violations`` are the same runs as engines
    report them. ``broken`` lists unmet expectations of the scenario's own file, and warnings. ``explored_at`` is the
    time of the earlier gate from which the result is reused; None if the entry ran now.
    """

    facts: Facts | None = None
    error: str | None = None
    stopped: str | None = None
    seconds: float = 0.0
    runs: dict[str, list[str]] = field(default_factory=dict)
    violations: dict[str, ViolatingRun] = field(default_factory=dict)
    broken: tuple[str, ...] = ()
    explored_at: str | None = None


def run(
    entry: GateEntry,
    limit_seconds: float | None = None,
    memory_bytes: int | None = None,
    reuse: Reuse = Reuse.NEVER,
) -> Ran:
    """Run an entry, or reuse the facts of an unchanged entry. An error of the protocol becomes ``Ran.error``.

    Unless ``reuse`` is NEVER, facts are also stored for later gates. Raises KeyboardInterrupt and InternalError.
    """
    started = time.perf_counter()
    ran = Ran()
    try:
        request = entry.request()
        identity = None if reuse is Reuse.NEVER else model_key.request_key(request)
        key = entry.kind, entry.unbounded, runner.asked_of(request, SearchOptions(workers=1))
        if reuse is Reuse.REUSE and (known := cache.found(Ran, identity, key)) is not None:
            return known
        if entry.kind == PROTOCOL:
            ran.facts = _widest(entry)
        elif entry.kind == PROOF:
            _proof(entry, ran, limit_seconds)
        else:
            _scenario(entry, ran, limit_seconds, memory_bytes, Reuse.NEVER if identity is None else reuse)
        if ran.facts is not None and identity is not None and model_key.sources_unchanged():
            cache.keep(replace(ran, explored_at=ran.explored_at or runner.now()), identity, key)
    except InternalError:
        raise
    except (LanguageError, InputError) as wrong:
        ran.error = str(wrong)
    except Exception as wrong:  # the protocol is the user's Python; the other entries still run
        ran.error = f"{type(wrong).__name__}: {wrong}"
    ran.seconds = time.perf_counter() - started
    return ran


def fingerprint(entry: GateEntry) -> str | None:
    """The fingerprint of an entry's model; None if it cannot be traced. Running the entry reports the reason."""
    try:
        return str(_widest(entry)["graph"]) if entry.kind == PROTOCOL else _graph(entry)[1]
    except Exception:
        return None


def _widest(entry: GateEntry) -> Facts:
    found = digests(entry.found().definition)
    graph = hashlib.sha256(json.dumps(sorted(found.values())).encode()).hexdigest()[:20]
    return {"verdict": "traced", "graph": graph, EXPRESSIONS: found}


def _graph(entry: GateEntry) -> tuple[Model, str]:
    request = entry.request()
    if entry.kind != PROOF:
        model = request.model()
        return model, model_key.KEPT.model(model, request.symmetry, request.deadlock)
    from highwater.checker.engines.solver.induction import with_helpers

    model = with_helpers(request).model()
    return model, model_key.KEPT.model(model, entry.unbounded)


def _scenario(
    entry: GateEntry, ran: Ran, limit_seconds: float | None, memory_bytes: int | None, reuse: Reuse
) -> None:
    request = entry.request()
    options = _options(limit_seconds, memory_bytes, request.symmetry, request.deadlock)
    search, keep = engines.search(engines.DEFAULT), reuse is not Reuse.NEVER
    result = runner.explore(request, engines.DEFAULT, search, options, keep=keep, reuse=reuse)
    model, ran.explored_at = result.model, result.explored_at
    if model is not None and result.reached_end:
        ran.broken = (*result.broken, *result.warnings)
        ran.runs = {e.name: list(counterexample.plain(model, e)) for e in result.runs}
        ran.violations = {v.property: v for v in result.search.violations}
        violated = {e.name: e.depth for e in result.runs}
        ran.facts = _found(model, result.search, violated, request.symmetry, request.deadlock)
    else:
        ran.stopped = result.stopped_by


def _options(
    limit_seconds: float | None, memory_bytes: int | None, symmetry: bool, deadlock: bool
) -> SearchOptions:
    return SearchOptions(
        workers=1,
        limit_seconds=limit_seconds,
        memory_bytes=memory_bytes,
        symmetry=symmetry,
        deadlock=deadlock,
        crowded=True,
    )


def run_image(image: Image, limit_seconds: float | None, memory_bytes: int | None = None) -> Ran:
    """Run a scenario of another revision from the image of its model."""
    started, ran = time.perf_counter(), Ran()
    try:
        model = RestoredModel(image)
        options = _options(limit_seconds, memory_bytes, image["symmetry"], image["deadlock"])
        search = engines.search("native")
        if model.liveness:
            from highwater.checker.engines.liveness import search_with_liveness

            result = search_with_liveness(model, search, engines.explore("native"), options)
        else:
            result = search(model, options, None)
        if result.stopped_by in (None, "violation"):
            violated = {v.property: v.depth for v in result.violations}
            ran.facts = _found(model, result, violated, image["symmetry"], image["deadlock"])
        else:
            ran.stopped = result.stopped_by
    except (LanguageError, UnknownImageError) as wrong:
        ran.error = str(wrong)
    ran.seconds = time.perf_counter() - started
    return ran


def _found(
    model: Model, result: SearchResult, violated: Mapping[str, int], symmetry: bool, deadlock: bool
) -> Facts:
    """The facts of a finished search. ``violated`` has the depth of each violated property and each reached goal."""
    goals = {name for name in model.safety if model.stated(name).goal}
    reached = {name: depth for name, depth in violated.items() if name in goals}
    violated = {name: depth for name, depth in violated.items() if name not in goals}
    verdict = "holds" if result.complete else REACHED
    verdict = NOT_REACHED if result.complete and goals - reached.keys() else verdict
    facts: Facts = {
        "verdict": "violated" if violated else verdict,
        "complete": result.complete,
        "distinct_states": result.distinct_states,
        "depth": result.depth,
        "graph": model_key.KEPT.model(model, symmetry, deadlock),
    }
    if reached:
        facts["reachable"] = reached
    if violated or not result.complete:
        facts |= {"violated": violated} if violated else {}
        if result.complete:
            named = result.premises.keys() - goals
            facts["properties"] = {name: "holds" for name in sorted(named) if name not in violated}
    else:
        possible = {i.action.name for i in model.instances}
        facts["generated_states"] = result.generated_states
        facts["actions"] = {n: t for n, t in result.actions.items() if n in possible}
        facts["premises"] = {n: met for n, met in result.premises.items() if n not in goals}
        facts["cut"] = dict(result.cut)
    return facts


def _proof(entry: GateEntry, ran: Ran, limit_seconds: float | None) -> None:
    command = [sys.executable, "-P", "-m", "highwater", "prove", entry.argument, "--induction", "--quiet"]
    command += ["--json", "-"]
    command += [f"--set={name}={value}" for name, value in entry.parameters.items()]
    command += [f"--rule={name}={'on' if on else 'off'}" for name, on in entry.rules.items()]
    command += ["--epochs", "unbounded"] * entry.unbounded
    if limit_seconds is not None:
        command += ["--limit-seconds", f"{limit_seconds:.1f}"]
    env = {**os.environ, "PYTHONPATH": str(Path(highwater.__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=entry.root, env=env)
    if done.returncode not in (0, 1, 3):
        raise InputError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "prove failed")
    (result,) = json.loads(done.stdout)
    if result["verdict"] == "inconclusive":
        ran.stopped = str(result["stopped_by"])
        return
    breaking: dict[str, list[str]] = {}
    for verdict in result["verdicts"]:
        actions = breaking.setdefault(verdict["property"], [])
        if not verdict["kept"]:
            actions.append(verdict["action"])
    ran.facts = {
        "verdict": result["verdict"],
        "graph": _graph(entry)[1],
        "properties": {
            name: "not kept by " + ", ".join(sorted(actions)) if actions else "kept"
            for name, actions in breaking.items()
        },
    }
    if result["never_enabled"]:
        ran.facts["never_enabled"] = ", ".join(sorted(result["never_enabled"]))
