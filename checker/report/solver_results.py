"""Results of the solver: bounded checks, differences of rules, and proofs by induction, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from highwater.checker.base.memory import peak_memory
from highwater.checker.base.problems import Status
from highwater.checker.base.text import change, lines
from highwater.checker.engines.solver import induction
from highwater.checker.engines.solver.any_size import AnySizeResult
from highwater.checker.engines.solver.bounded import BoundedResult, DepthDone
from highwater.checker.engines.solver.difference import Differences, Witness, witness_lines
from highwater.checker.engines.solver.terms import BEYOND
from highwater.checker.report.results import STOPPED, Result, status_of
from highwater.checker.scenarios.request import Checked, Request
from highwater.model.language import Model
from highwater.model.language.any_size import STAND_INS
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import said
from highwater.model.versions import versions
from highwater.traces.reports.text import count

ENGINE = "z3"


@dataclass(frozen=True, repr=False, eq=False)
class DepthResult(Result):
    """The result of a bounded check of a scenario. Expectations at greater depths stay undecided."""

    form: ClassVar[str] = "proof"

    asked_depth: int = 0
    """The requested depth."""

    @property
    def reached_end(self) -> bool:
        """True if the check reached the requested depth, or ended earlier because nothing was left to decide."""
        return self.stopped_by in (None, "depth", "violation")

    @property
    def verdict(self) -> str:
        """The verdict as in ``Result``. It is also ``holds`` if every property holds up to the requested depth."""
        verdict = super().verdict
        to_depth = self.reached_end and bool(self.request.properties or not self.request.goals)
        return "holds" if verdict == "inconclusive" and to_depth else verdict

    def to_json(self) -> dict[str, Any]:
        """The JSON data of ``Result``, without counts of states, and with the verdicts at each depth."""
        assert isinstance(self.search, BoundedResult)
        said = super().to_json()
        for uncounted in ("distinct_states", "generated_states"):
            said[uncounted] = None
        for absent in ("cut", "actions", "premises", "collision_probability", "spilled_bytes"):
            del said[absent]
        said["question"] = "depth"
        said["asked_depth"] = self.asked_depth
        said["peak_memory_bytes"] = peak_memory()
        said["depths"] = [self._depth(d) for d in self.search.depths]
        return said

    def _depth(self, done: DepthDone) -> dict[str, object]:
        """The verdicts at one depth as plain data. Goals are listed as reached, and do not count as holding."""
        depths = self.reachable
        return {
            "depth": done.depth,
            "violated": [name for name in done.violated if name not in depths],
            "reached": [name for name in done.violated if name in depths],
            "holding": done.holding - sum(d is None or d > done.depth for d in depths.values()),
            "seconds": round(done.seconds, 6),
        }

    def lines(self) -> Iterator[str]:
        """The lines that state the verdict."""
        name = self.name
        for run in self.runs:
            yield f"{name}: {run.name} {run.outcome} at depth {run.depth}"
        open_ = len(self.request.properties) - len(self.examples)
        if self.complete:
            what = f"in every reachable state, as no run is longer than {self.depth} states"
        else:
            what = f"in every state up to depth {self.depth}" if self.depth else "so far in no state"
        if open_:
            yield f"{name}: {count(open_, 'property', 'properties')} {'holds' if open_ == 1 else 'hold'} {what}"
        if not (self.request.properties or self.request.goals) or self.checked.rest:
            yield f"{name}: {self.checked.sentence}"
        if not self.reached_end:
            why = STOPPED[self.stopped_by or ""]
            yield f"{name}: {why} at depth {self.depth + 1} of {self.asked_depth}: inconclusive"
        if self.request.as_written:
            for line in self.broken:
                yield f"{name}: {line}"
            if missed := sorted(self.request.scenario.expectation.violated - {e.name for e in self.examples}):
                yield f"{name}: expected to be violated, but not within this depth: {', '.join(missed)}"
        if self.unreached and not self.complete:
            yield f"{name}: not reached within this depth: {', '.join(self.unreached)}"


# --- differences of two sets of rules -----------------------------------------------------------------


@dataclass(frozen=True)
class DifferenceResult:
    """The result of comparing two requests, action by action.

    - ``rule``: with ``--each-rule``, the rule in which the second request differs from the first; otherwise ""
    - ``apart``: the scalars that only one of the models has, and that were not compared
    - ``any_state``: True if states that violate invariants were compared, too
    """

    requests: tuple[Request, Request]
    models: tuple[Model, Model]
    found: Differences
    rule: str
    apart: list[str]
    any_state: bool

    @cached_property
    def different(self) -> list[str]:
        """The names of the actions that differ."""
        return [name for name, witness in self.found.actions.items() if witness]

    @property
    def whole(self) -> Model:
        """The model whose states have all fields of both models."""
        return max(self.models, key=lambda model: len(model.leaves))

    @property
    def verdict(self) -> str:
        """``different``, ``equal``, or ``inconclusive`` if a limit ended the comparison first."""
        if self.different:
            return "different"
        return "inconclusive" if self.found.stopped_by else "equal"

    @property
    def status(self) -> Status:
        """The exit status of a command that has this result."""
        stopped = self.found.stopped_by
        return status_of(stopped, violated=bool(self.different), decided=not stopped)

    @cached_property
    def sides(self) -> tuple[str, str]:
        """The names of the two sets of rules, for reports."""
        first, second = self.requests
        if first.profile != second.profile:
            return str(first.profile), str(second.profile)
        one, two = (
            ", ".join(f"{rule} {'on' if pair[i] else 'off'}" for rule, pair in self._changed.items())
            for i in (0, 1)
        )
        return one or "first", two or "second"

    @cached_property
    def _changed(self) -> dict[str, tuple[bool, bool]]:
        """The rules that differ between the requests, each with (on in the first, on in the second)."""
        first, second = (request.rules for request in self.requests)
        return {rule: (on, second[rule]) for rule, on in first.items() if second[rule] != on}

    def lines(self, *, witnesses: bool) -> Iterator[str]:
        """The lines that state the verdict.

        With ``witnesses``, lines about a state in which the rules differ come first, for each differing action.
        """
        found, name = self.found, self.rule or self.requests[0].scenario.name
        for action, witness in found.actions.items():
            if witness and witnesses:
                chosen = ", ".join(f"{k}={said(v)}" for k, v in witness.parameters.items())
                yield f"{action}({chosen}) differs{f' ({self.rule})' if self.rule else ''}"
                yield from witness_lines(self.whole, witness, self.sides)
                yield ""
        if found.stopped_by:
            yield f"{name}: stopped ({found.stopped_by}) after {len(found.actions)} actions"
        if self.apart:
            side = self.sides[self.models.index(self.whole)]
            yield f"{name}: only shared fields are compared; only {side} has {', '.join(self.apart)} (any value)"
        if self.different:
            yield f"{name}: different: {', '.join(self.different)}"
        what = "all states" if self.any_state else "all states with the invariants"
        if equal := [action for action, witness in found.actions.items() if witness is None]:
            yield f"{name}: equal in {what} ({found.seconds:.1f} s): {', '.join(equal)}"

    def to_json(self) -> dict[str, object]:
        """The result as ``--json`` writes it; ``actions`` has one entry for each compared action."""
        first, found = self.requests[0], self.found
        return {
            "scenario": first.scenario.name,
            "protocol": first.scenario.definition.name,
            "engine": ENGINE,
            "question": "difference",
            "parameters": dict(first.parameters),
            "rule": self.rule or None,
            "rules": {rule: list(pair) for rule, pair in self._changed.items()},
            "verdict": self.verdict,
            "not_shared": self.apart,
            "stopped_by": found.stopped_by,
            "seconds": round(found.seconds, 6),
            "actions": [self._action(name, witness) for name, witness in found.actions.items()],
            "versions": versions("difference"),
        }

    def _action(self, name: str, witness: Witness | None) -> dict[str, object]:
        if witness is None:
            return {"action": name, "equal": True}
        decode = self.whole.decode
        return {
            "action": name,
            "equal": False,
            "parameters": witness.parameters,
            "before": decode(witness.before),
            "first": None if witness.first is None else decode(witness.first),
            "second": None if witness.second is None else decode(witness.second),
        }


# --- proofs by induction ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProofResult:
    """The result of a proof by induction. ``helpers`` are the names of the helper invariants that are also proved."""

    request: Request
    model: Model
    found: induction.InductionResult
    helpers: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """``holds``, ``violated`` (in an initial state), ``not_inductive`` or, after a limit, ``inconclusive``."""
        failures = self.found.failures
        if any(f.action == induction.INITIAL for f in failures):
            return "violated"
        if failures:
            return "not_inductive"
        return "holds" if self.found.proved else "inconclusive"

    @property
    def status(self) -> Status:
        """The exit status of a command that has this result."""
        found = self.found
        return status_of(found.stopped_by, violated=bool(found.failures), decided=found.proved)

    @cached_property
    def actions(self) -> list[str]:
        """The names of the actions that have a verdict."""
        return list(dict.fromkeys(v.action for v in self.found.verdicts if v.action != induction.INITIAL))

    @property
    def checked(self) -> Checked:
        """The properties that the proof covers, helpers included, and those that it does not cover."""
        return self.request.checked.without(self.model.safety)

    def lines(self, *, failures: bool = True, full: bool = False) -> Iterator[str]:
        """The lines that state the verdict. With ``failures``, lines about each failure precede them.

        With ``full``, a line for every action and property comes first: whether the action preserves the property.
        """
        name, found = self.request.scenario.name, self.found
        if full:
            for verdict in found.verdicts:
                word = "preserves" if verdict.kept else "does not preserve"
                yield f"{verdict.action} {word} {verdict.property}"
            yield ""
        if failures:
            for group in self._groups():
                yield from self._failure(group)
        for verdict in found.failures:
            yield f"{name}: {verdict.action} does not preserve {verdict.property}"
        if found.never:
            yield f"{name}: no state that satisfies all invariants enables {', '.join(found.never)}"
        if found.stopped_by:
            possible = {i.action.name for i in self.model.instances}
            yield (
                f"{name}: {STOPPED[found.stopped_by]}: inconclusive, {len(self.actions)} of "
                f"{len(possible)} actions were decided"
            )
        of_steps = len(self.model.step_properties)
        counts = count(len(self.model.properties), "invariant")
        counts += f" and {count(of_steps, 'step property', 'step properties')}"
        if found.proved:
            yield (
                f"{name}: {counts} hold in every run: the initial states satisfy them, and each of "
                f"{len(self.actions)} actions preserves them from any state ({found.seconds:.1f} s)"
            )
        elif not found.stopped_by:
            kept = sum(bool(v.kept) for v in found.verdicts)
            yield f"{name}: not inductive: {kept} of {len(found.verdicts)} verdicts hold"
        if rest := self.checked.rest:
            yield f"{name}: {rest}"

    def _groups(self) -> Iterator[list[induction.Preserved]]:
        """The failing verdicts, grouped by the step that shows them."""
        groups: dict[int, list[induction.Preserved]] = {}
        for verdict in self.found.failures:
            groups.setdefault(id(verdict.failure), []).append(verdict)
        yield from groups.values()

    def _failure(self, group: list[induction.Preserved]) -> Iterator[str]:
        failure = group[0].failure
        assert failure is not None
        names = ", ".join(v.property for v in group)
        type_ = self.model.protocol.state
        yield f"{group[0].action} does not preserve {names}"
        for verdict in group:
            if meaning := self.meaning(verdict.property):
                yield f"  {verdict.property}: {meaning}"
        yield "  State before, in which all invariants hold:" if failure.instance else "  Initial state:"
        for path, text in lines(type_, self.model.decode(failure.before)):
            yield f"      {path}  {text}"
        if failure.instance is not None:
            yield f"  Step: {failure.instance.sentence}"
        if failure.after is None:
            yield "  After it a value leaves its type."
        elif failure.instance is not None:
            changes = Interpreter(self.model).changes(failure.before, failure.after)
            yield from (f"      {change(type_, path, values)}" for path, values in changes.items())
        if failure.excluded_by:
            yield f"  Excluded by what was not assumed: {', '.join(failure.excluded_by)}"
        elif failure.instance is not None:
            yield "  No other known invariant excludes the state before."
        yield ""

    def meaning(self, name: str) -> str:
        """The meaning of the property with this name, as a sentence."""
        if name == induction.WITHIN_TYPES:
            return "A step leaves a type only at a declared bound."
        return self.model.stated(name).meaning

    def to_json(self) -> dict[str, Any]:
        """The result as ``--json`` writes it; ``verdicts`` has one entry for each action and property."""
        request, found = self.request, self.found
        return {
            **request.as_json(ENGINE),
            "question": "induction",
            "properties": request.properties,
            **self.checked.as_json(),
            "helpers": list(self.helpers),
            "step_properties": [p.name for p in self.model.step_properties],
            "verdict": self.verdict,
            "complete": found.proved,
            "stopped_by": found.stopped_by,
            "distinct_states": None,
            "generated_states": None,
            "depth": None,
            "seconds": round(found.seconds, 6),
            "never_enabled": list(found.never),
            "verdicts": [
                {
                    "action": v.action,
                    "property": v.property,
                    "kept": v.kept,
                    **({"failure": self._json(v.failure)} if v.failure else {}),
                }
                for v in found.verdicts
            ],
            "violations": [],
            "versions": versions("proof"),
        }

    def _json(self, failure: induction.Failure) -> dict[str, Any]:
        decode = self.model.decode
        return {
            "before": decode(failure.before),
            "parameters": dict(failure.instance.parameters) if failure.instance else {},
            "sentence": failure.instance.sentence if failure.instance else induction.INITIAL,
            "after": None if failure.after is None else decode(failure.after),
            "excluded_by": list(failure.excluded_by),
        }


# --- proofs for any number of brokers -------------------------------------------------------------------


@dataclass(frozen=True)
class AnySizeProof:
    """The result of a proof for an index of any size. ``helpers`` are the names of the helper invariants."""

    request: Request
    found: AnySizeResult
    helpers: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """``holds``; ``not_inductive``: an obligation has a counterexample; or ``inconclusive``."""
        if self.found.proved:
            return "holds"
        return "not_inductive" if self._failing("sat") else "inconclusive"

    @property
    def status(self) -> Status:
        """The exit status of a command that has this result."""
        found = self.found
        return status_of(found.stopped_by, violated=bool(self._failing("sat")), decided=found.proved)

    def _failing(self, answer: str) -> list[str]:
        failing = (d.obligation for d in self.found.failures if d.answer == answer)
        return list(dict.fromkeys(f"{o.property} ({o.action})" for o in failing))

    def lines(self, *, full: bool = False) -> Iterator[str]:
        """The lines that state the verdict. With ``full``, a line for each obligation comes first."""
        name, found, traced = self.request.scenario.name, self.found, self.found.traced
        words = {"unsat": "proved", "sat": "has a counterexample", "unknown": "not decided"}
        if full:
            for d in found.decided:
                yield f"{d.obligation.name} {words[d.answer]} ({d.seconds:.2f} s)"
            yield ""
        for what, reason in traced.irregular.items():
            yield f"{name}: not proved for any size: {what}: {reason}"
        if failing := self._failing("sat"):
            yield f"{name}: not preserved, by the known facts about counts: {', '.join(failing)}"
        if failing := self._failing("unknown"):
            yield f"{name}: not decided: {', '.join(failing)}"
        if found.stopped_by:
            decided = f"{len(found.decided)} of {len(traced.obligations)} obligations were decided"
            yield f"{name}: {STOPPED[found.stopped_by]}: inconclusive, {decided}"
        sized = self.request.scenario.protocol.any_size[0]
        if found.proved:
            yield (
                f"{name}: {count(len(traced.properties), 'property', 'properties')} hold in every run, for any number "
                f"of {sized}: {len(traced.actions)} actions, {len(traced.obligations)} obligations "
                f"({found.seconds:.1f} s)"
            )
            yield f"{name}: {self.bounds}"
        if rest := self.checked.rest:
            yield f"{name}: {rest}"

    @property
    def bounds(self) -> str:
        """The bounds that remain, as a sentence."""
        sized, *free = self.request.scenario.protocol.any_size
        declared = {
            name: value for name, value in self.request.parameters.items() if name not in (sized, *free)
        }
        left = [f"{name} {value if value < BEYOND else '2^80'}" for name, value in declared.items() if value]
        return f"bounds that remain: {sized} at most {STAND_INS[1]}; {', '.join(left)}"

    @property
    def checked(self) -> Checked:
        """The properties that the proof covers, helpers included, and those that it does not cover."""
        return self.request.checked.without(list(self.found.traced.properties))

    def to_json(self) -> dict[str, Any]:
        """The result as ``--json`` writes it; ``obligations`` has one entry for each obligation."""
        request, found = self.request, self.found
        return {
            **request.as_json(ENGINE),
            "question": "any_size",
            "properties": request.properties,
            **self.checked.as_json(),
            "helpers": list(self.helpers),
            "verdict": self.verdict,
            "complete": found.proved,
            "stopped_by": found.stopped_by,
            "distinct_states": None,
            "generated_states": None,
            "depth": None,
            "seconds": round(found.seconds, 6),
            "peak_memory_bytes": peak_memory(),
            "bounds": self.bounds,
            "irregular": dict(found.traced.irregular),
            "obligations": [
                {"name": d.obligation.name, "answer": d.answer, "seconds": round(d.seconds, 6)}
                for d in found.decided
            ],
            "violations": [],
            "versions": versions("proof"),
        }
