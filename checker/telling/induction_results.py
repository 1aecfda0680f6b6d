"""What came of a proof by induction: in words, and as the result object of the command line's contract."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from highwater.checker.asking.checked import Checked
from highwater.checker.asking.request import Request
from highwater.checker.base import words
from highwater.checker.base.status import Status
from highwater.checker.engines.solver import induction
from highwater.checker.telling.bounded_results import ENGINE, STOPPED
from highwater.model.language.interpreter import Interpreter
from highwater.model.language.model import Model
from highwater.model.versions import versions


@dataclass(frozen=True)
class InductionOutcome:
    """A proof that was tried: ``helpers`` are the names of the invariants that were proved with those asked for."""

    request: Request
    model: Model
    result: induction.InductionResult
    helpers: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """``holds``, ``violated`` (in an initial state), ``not_inductive``, or ``inconclusive``: a limit came first."""
        failures = self.result.failures
        if any(f.action == induction.INITIAL for f in failures):
            return "violated"
        if failures:
            return "not_inductive"
        return "holds" if self.result.proved else "inconclusive"

    @property
    def status(self) -> Status:
        """The exit status that this outcome stands for."""
        if self.result.stopped_by == "interrupted":
            return Status.INTERRUPTED
        if self.result.failures:
            return Status.VIOLATED
        return Status.AS_PROMISED if self.result.proved else Status.INCONCLUSIVE

    @cached_property
    def actions(self) -> list[str]:
        """The actions that were decided."""
        return list(dict.fromkeys(v.action for v in self.result.verdicts if v.action != induction.INITIAL))

    @property
    def checked(self) -> Checked:
        """The properties that the proof covers, helpers included, and those that it does not."""
        return self.request.checked.without(self.model.safety)

    def lines(self, *, failures: bool = True, full: bool = False) -> Iterator[str]:
        """The verdict in words, after the failures where they are wanted; with every verdict where ``full``."""
        name, result = self.request.scenario.name, self.result
        if full:
            for verdict in result.verdicts:
                word = {True: "keeps", False: "does not keep", None: "?"}[verdict.kept]
                yield f"{verdict.action} {word} {verdict.property}"
            yield ""
        if failures:
            for group in self._groups():
                yield from self._failure(group)
        for verdict in result.failures:
            yield f"{name}: {verdict.action} does not keep {verdict.property}"
        if result.never:
            yield f"{name}: no state with all invariants enables {', '.join(result.never)}"
        if result.stopped_by:
            possible = {i.action.name for i in self.model.instances}
            yield (
                f"{name}: {STOPPED[result.stopped_by]}: inconclusive, {len(self.actions)} of "
                f"{len(possible)} actions were decided"
            )
        of_steps = len(self.model.step_properties)
        counts = f"{len(self.model.properties)} invariants and {of_steps} "
        counts += "property of steps" if of_steps == 1 else "properties of steps"
        if result.proved:
            yield (
                f"{name}: {counts} hold in every run: the initial states satisfy them, and each of "
                f"{len(self.actions)} actions keeps them from any state ({result.seconds:.1f} s)"
            )
        elif not result.stopped_by:
            kept = sum(bool(v.kept) for v in result.verdicts)
            yield f"{name}: not inductive: {kept} of {len(result.verdicts)} verdicts are as they should be"
        if rest := self.checked.rest:
            yield f"{name}: {rest}"

    def _groups(self) -> Iterator[list[induction.Preserved]]:
        """Failures by the step that shows them."""
        groups: dict[int, list[induction.Preserved]] = {}
        for verdict in self.result.failures:
            groups.setdefault(id(verdict.failure), []).append(verdict)
        yield from groups.values()

    def _failure(self, group: list[induction.Preserved]) -> Iterator[str]:
        failure = group[0].failure
        assert failure is not None
        names = ", ".join(v.property for v in group)
        type_ = self.model.protocol.state
        yield f"{group[0].action} does not keep {names}"
        for verdict in group:
            if meaning := self.meaning(verdict.property):
                yield f"  {verdict.property}: {meaning}"
        yield "  State before, in which all invariants hold:" if failure.instance else "  Initial state:"
        for path, text in words.lines(type_, self.model.decode(failure.before)):
            yield f"      {path}  {text}"
        if failure.instance is not None:
            instance = failure.instance
            yield f"  Step: {instance.sentence if instance.action.says else instance}"
        if failure.after is None:
            yield "  After it a value leaves its type."
        elif failure.instance is not None:
            changes = Interpreter(self.model).changes(failure.before, failure.after)
            for path, (before, after) in changes.items():
                inner = words.at(type_, path)
                yield f"      {path}  {words.say(inner, before)} → {words.say(inner, after)}"
        if failure.excluded_by:
            yield f"  Excluded by what was not assumed: {', '.join(failure.excluded_by)}"
        elif failure.instance is not None:
            yield "  No other known invariant excludes the state before."
        yield ""

    def meaning(self, name: str) -> str:
        """What a property says."""
        if name == induction.WITHIN_TYPES:
            return "A step leaves a type only at a declared bound."
        return self.model.stated(name).meaning

    def as_json(self) -> dict[str, Any]:
        """The result as the command line promises it; ``verdicts`` has one entry for each action and property."""
        request, result = self.request, self.result
        return {
            "scenario": request.scenario.name,
            "protocol": request.scenario.definition.name,
            "profile": request.profile,
            "engine": ENGINE,
            "question": "induction",
            "parameters": dict(request.parameters),
            "rules": dict(request.rules),
            "properties": request.properties,
            **self.checked.as_json(),
            "helpers": list(self.helpers),
            "step_properties": [p.name for p in self.model.step_properties],
            "verdict": self.verdict,
            "complete": result.proved,
            "stopped_by": result.stopped_by,
            "distinct_states": None,
            "generated_states": None,
            "depth": None,
            "seconds": round(result.seconds, 6),
            "never_enabled": list(result.never),
            "verdicts": [
                {
                    "action": v.action,
                    "property": v.property,
                    "kept": v.kept,
                    **({"failure": self._json(v.failure)} if v.failure else {}),
                }
                for v in result.verdicts
            ],
            "violations": [],
            "versions": versions("proof"),
        }

    def _json(self, failure: induction.Failure) -> dict[str, Any]:
        decode = self.model.decode
        return {
            "before": decode(failure.before),
            "parameters": dict(failure.instance.parameters) if failure.instance else {},
            "sentence": failure.instance.sentence
            if failure.instance and failure.instance.action.says
            else str(failure.instance or induction.INITIAL),
            "after": None if failure.after is None else decode(failure.after),
            "excluded_by": list(failure.excluded_by),
        }
