"""What came of comparing two sets of rules: in words, and as the result object of the command line's contract."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from highwater.checker.asking.request import Request
from highwater.checker.base.status import Status
from highwater.checker.engines.solver.difference import Differences, Witness, told
from highwater.checker.telling.bounded_results import ENGINE
from highwater.model.language.model import Model, said
from highwater.model.versions import versions


@dataclass(frozen=True)
class DifferenceOutcome:
    """Two requests with their models, and the actions of them that were compared.

    ``rule`` is the one that alone was taken over into the first, empty where all were; ``apart`` are the scalars that
    only one of the two states has: they were compared over the others. ``any_state`` says that states were not held to
    the invariants.
    """

    requests: tuple[Request, Request]
    models: tuple[Model, Model]
    found: Differences
    rule: str
    apart: list[str]
    any_state: bool

    @cached_property
    def different(self) -> list[str]:
        """The actions that do not do the same."""
        return [name for name, witness in self.found.actions.items() if witness]

    @property
    def whole(self) -> Model:
        """The model whose states have all fields of both."""
        return max(self.models, key=lambda model: len(model.leaves))

    @property
    def verdict(self) -> str:
        """``different``, ``equal``, or ``inconclusive``: a limit came first."""
        if self.different:
            return "different"
        return "inconclusive" if self.found.stopped_by else "equal"

    @property
    def status(self) -> Status:
        """The exit status that this outcome stands for."""
        if self.found.stopped_by == "interrupted":
            return Status.INTERRUPTED
        statuses = {"equal": Status.AS_PROMISED, "inconclusive": Status.INCONCLUSIVE}
        return statuses.get(self.verdict, Status.VIOLATED)

    @cached_property
    def sides(self) -> tuple[str, str]:
        """How the two sets of rules are called."""
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
        """The rules that are on in one and off in the other."""
        first, second = (request.rules for request in self.requests)
        return {rule: (on, second[rule]) for rule, on in first.items() if second[rule] != on}

    def lines(self, *, witnesses: bool) -> Iterator[str]:
        """The verdict in words, after the states that tell the two apart where they are wanted."""
        found, name = self.found, self.rule or self.requests[0].scenario.name
        for action, witness in found.actions.items():
            if witness and witnesses:
                chosen = ", ".join(f"{k}={said(v)}" for k, v in witness.parameters.items())
                yield f"{action}({chosen}) differs{f' ({self.rule})' if self.rule else ''}"
                yield from told(self.whole, witness, self.sides)
                yield ""
        if found.stopped_by:
            yield f"{name}: stopped ({found.stopped_by}) after {len(found.actions)} actions"
        if self.apart:
            side = self.sides[self.models.index(self.whole)]
            yield f"{name}: compared over the shared fields; only {side} has {', '.join(self.apart)} (any value)"
        if self.different:
            yield f"{name}: different: {', '.join(self.different)}"
        what = "all states" if self.any_state else "all states with the invariants"
        if equal := [action for action, witness in found.actions.items() if witness is None]:
            yield f"{name}: equal in {what} ({found.seconds:.1f} s): {', '.join(equal)}"

    def as_json(self) -> dict[str, object]:
        """The result as the command line promises it; ``actions`` has one entry for each that was compared."""
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
