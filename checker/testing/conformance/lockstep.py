"""Run the model and an implementation in lockstep, and track the model's states that fit the observations.

A state fits if it allows all observations so far. If no state is left, the last operation is a mismatch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from highwater.checker.base import text as words
from highwater.checker.base.problems import InputError
from highwater.errors import unknown
from highwater.model.language import Model, Rulebook
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import Interpreter, differences
from highwater.model.language.model import Instance, said
from highwater.model.language.rulebook import numbers
from highwater.model.language.tracker import Observation, StateTracker, TooManyStatesError
from highwater.traces.reading import OutOfRangeError, Place, TraceError
from highwater.traces.runs.format import Seen, read_value


class AdapterError(Exception):
    """The implementation cannot be driven, which is no mismatch. The message is one line."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of an operation: it is done, or refused, possibly with the name of an error."""

    done: bool
    error: str | None = None


class Adapter(ABC):
    """Drives one implementation. An exception of a method ends the test; a refused operation is an Outcome."""

    @abstractmethod
    def reset(self, state: Mapping[str, Any]) -> None:
        """Put the implementation into an initial state of the model, given as plain values."""

    @abstractmethod
    def apply(self, operation: str, parameters: Mapping[str, Any]) -> Outcome:
        """Carry out an operation to its end, and return its outcome. ``operation`` names the model's action."""

    @abstractmethod
    def observe(self) -> Mapping[str, Any]:
        """The visible part of the implementation's state, in the form of a trace's ``state``."""


@dataclass(frozen=True)
class Contract:
    """The relation between the model's actions and the implementation's operations.

    - ``operations``: the actions that are tried (None: all)
    - ``answers``: the guards that the implementation itself checks, each with its error (None: any error). An
      operation that only these guards refuse is tried, and the implementation must refuse it
    - ``idle``: guards. An operation that only these guards refuse is tried; it must have no effect, whether the
      implementation does or refuses it
    - ``chosen``: for an action, the parameters whose values the implementation chooses
    - ``hidden_steps``: before each operation, the model may take up to this many unobserved steps of any action
    """

    operations: Collection[str] | None = None
    answers: Mapping[str, str | None] = field(default_factory=dict)
    idle: Collection[str] = ()
    chosen: Mapping[str, Collection[str]] = field(default_factory=dict)
    hidden_steps: int = 0


LIMIT = 10_000
"""The most states of the model that a run may track at a time."""

TAKES, REFUSES, IDLE, CUT, SENSELESS = "takes", "refuses", "idle", "cut", "senseless"
"""Verdicts on an operation in a state of the model.

- takes: no guard refuses the operation, and the next state is within the bounds.
- cut: no guard refuses it, and the next state is beyond a bound.
- idle: guards of ``Contract.idle`` alone refuse it, so it has no effect.
- refuses: guards of ``Contract.answers`` refuse it, perhaps with idle ones, so the implementation must refuse it.
- senseless: the contract omits its action, or another guard refuses it. It is not tried.
"""


class Mismatch(AssertionError):
    """The implementation did something that the model does not allow.

    ``operations`` are the instance numbers of the run up to the mismatch.
    """

    def __init__(self, text: str, operations: Sequence[int]) -> None:
        super().__init__(text)
        self.operations = tuple(operations)


@dataclass
class Lockstep:
    """One run of an implementation and the model together, from the model's first initial state.

    ``states`` are the model's states that fit the observations. ``operations`` are the numbers of the
    instances carried out so far.
    """

    model: Model
    adapter: Adapter
    contract: Contract
    interpreter: Interpreter
    states: list[Scalars] = field(default_factory=list)
    operations: list[int] = field(default_factory=list)
    history: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_contract(self.model, self.contract)
        self._judged = lru_cache(maxsize=4096)(self._judge)
        self._tracker = StateTracker(self._unseen, self.contract.hidden_steps, LIMIT)

    def start(self) -> None:
        """Reset the implementation, and compare its first observation."""
        initial = self.model.initial[0]
        self.states, self.operations, self.history = [initial], [], []
        self.adapter.reset(self.model.decode(initial))
        seen = self._observe("initial state", None)
        if not seen.fits(initial):
            raise self._mismatch(self._differing([initial], seen))

    def possible(self) -> tuple[list[int], list[int]]:
        """Two lists of operations to try: those that the model takes in some present state, and those it takes in none.

        An operation is left out if it has the verdict CUT (pruned at a bound) or SENSELESS (not in the contract) in
        some present state.
        """
        kinds = [self._judged(state) for state in self.states]
        takes: list[int] = []
        refuses: list[int] = []
        for number in range(len(self.model.instances)):
            found = {kind[number] for kind in kinds}
            if CUT in found or SENSELESS in found:
                continue
            (takes if TAKES in found else refuses).append(number)
        return takes, refuses

    def step(self, number: int) -> None:
        """Carry out an operation, which must be one of ``possible``, and keep the states that fit the result.

        Raises Mismatch if no state fits, and AdapterError if the adapter does not return an Outcome.
        """
        instance = self.model.instances[number]
        called, shown = instance.action.name, self._shown(instance)
        outcome = self.adapter.apply(called, shown)
        if not isinstance(outcome, Outcome):
            raise AdapterError(f"apply({called}) returned {outcome!r:.80}, not an Outcome")
        self.operations.append(number)
        seen = self._observe(_sentence(instance, shown), outcome)
        numbers = [n for n in range(len(self.model.instances)) if self._same(n, instance)]
        steps = partial(self._steps, numbers, outcome)
        try:
            found = self._tracker.advance(self.states, Observation(steps, lambda _, state: seen.fits(state)))
        except TooManyStatesError as wrong:
            raise AdapterError(f"{wrong}: observe more") from None
        if not found.states:
            before = [state for _, state in found.before]
            allowed = [after for state in before for _, after in steps(state)]
            if allowed:
                raise self._mismatch(self._differing(allowed, seen))
            raise self._mismatch(self._refusal(before[0], numbers, outcome))
        self.states = list(found.states)

    # --- the model ----------------------------------------------------------------------------------------

    def _judge(self, state: Scalars) -> list[str]:
        """For each of the model's instances, a verdict on it in a state: one of ``TAKES`` to ``SENSELESS``."""
        results = iter(self.interpreter.guards(state))
        kinds = []
        for number, instance in enumerate(self.model.instances):
            refusing = [guard.name for guard in instance.guards if not next(results)]
            wanted = self.contract.operations
            if wanted is not None and instance.action.name not in wanted:
                kinds.append(SENSELESS)
            elif not refusing:
                kinds.append(TAKES if self.interpreter.step(state, number).state is not None else CUT)
            elif all(name in self.contract.idle for name in refusing):
                kinds.append(IDLE)
            elif all(name in self.contract.answers or name in self.contract.idle for name in refusing):
                kinds.append(REFUSES)
            else:
                kinds.append(SENSELESS)
        return kinds

    def _refused_as(self, state: Scalars, number: int, outcome: Outcome) -> bool:
        """True if the implementation refused the operation, with the expected error.

        The guards that refuse the operation in ``state`` determine the error: it is that of the first one in the
        contract's ``answers``.
        """
        if outcome.done:
            return False
        names = self.interpreter.refusals(state, self.model.instances[number])
        first = next(name for name in names if name in self.contract.answers)
        return self.contract.answers[first] in (None, outcome.error)

    def _unseen(self, state: Scalars) -> Iterator[tuple[int, Scalars]]:
        return enumerate(self.interpreter.successors(state))

    def _steps(
        self, numbers: Sequence[int], outcome: Outcome, state: Scalars
    ) -> Iterator[tuple[int, Scalars]]:
        """The numbers of the instances that can have had the outcome in a state, each with the state afterwards."""
        for number in numbers:
            kind = self._judged(state)[number]
            if kind is IDLE or (kind is REFUSES and self._refused_as(state, number, outcome)):
                yield number, state
            elif kind is TAKES and outcome.done:
                after = self.interpreter.step(state, number).state
                assert after is not None
                yield number, after

    def _same(self, number: int, instance: Instance) -> bool:
        other = self.model.instances[number]
        return other.action is instance.action and self._shown(other) == self._shown(instance)

    def _shown(self, instance: Instance) -> dict[str, Any]:
        """The parameters that the implementation receives, without the parameters that it chooses itself."""
        hidden = self.contract.chosen.get(instance.action.name, ())
        return {name: value for name, value in instance.parameters.items() if name not in hidden}

    # --- observations -------------------------------------------------------------------------------------

    def _observe(self, sentence: str, outcome: Outcome | None) -> Seen:
        """The observation after an operation, which is given as text with its outcome (None at the start).

        Raises Mismatch if it has a value outside the model's types, and AdapterError if it is not a state.
        """
        observed = self.adapter.observe()
        seen = Seen()
        self.history.append(
            f"{len(self.history) + 1:4}  {sentence}{f': {_outcome(outcome)}' if outcome else ''}"
        )
        try:
            read_value(self.model.protocol.state, 0, observed, Place(Path("observed"), 1), seen)
        except TraceError as wrong:
            field_ = f"{wrong.field}: " if wrong.field else ""
            if not isinstance(wrong, OutOfRangeError):
                see = f"`highwater show {self.model.protocol.name}` lists the fields of the state"
                raise AdapterError(f"observe() returned no state: {field_}{wrong.message}; {see}") from None
            raise self._mismatch([f"  observed is {field_}{wrong.message}"]) from None
        return seen

    def _mismatch(self, reasons: Sequence[str]) -> Mismatch:
        count = len(self.operations)
        lines = [
            f"{self.model.protocol.name} does not allow what the implementation did, "
            f"after {count} operation{'' if count == 1 else 's'}:",
            *self.history,
            *reasons,
            *self._rules(),
            "",
            "The model before this operation"
            + (f", one of {len(self.states)} states that fit:" if len(self.states) > 1 else ":"),
        ]
        type_ = self.model.protocol.state
        pairs = list(words.lines(type_, self.model.decode(self.states[0])))
        lines += words.columns(pairs, "  ", None)
        return Mismatch("\n".join(lines), self.operations)

    def _differing(self, allowed: Sequence[Scalars], seen: Seen) -> list[str]:
        """The differences of an observation from the most similar of the states that the model allows, as lines."""
        found = [
            differences(self.model.decode(state), self.model.decode(seen.over(state))) for state in allowed
        ]
        nearest = min(found, key=len)
        type_ = self.model.protocol.state
        return [
            f"  {path}: the model says {words.say(words.at(type_, path), model)}, "
            f"observed is {words.say(words.at(type_, path), there)}"
            for path, (model, there) in nearest.items()
        ]

    def _refusal(self, state: Scalars, numbers: Sequence[int], outcome: Outcome) -> list[str]:
        """The reason why no instance can have had the outcome in a state, as lines.

        The lines show that the model carries the operation out, or the guards that refuse it in the model.
        """
        if any(self._judged(state)[number] is TAKES for number in numbers):
            return [f"  the model carries it out; the implementation {_outcome(outcome)}"]
        names = self.interpreter.refusals(state, self.model.instances[numbers[-1]])
        errors = {name: self.contract.answers.get(name) for name in names}
        lines = [
            f"  the model refuses it: {name}{f' (answer {error})' if error else ''}"
            for name, error in errors.items()
        ]
        return [*lines, f"  the implementation: {_outcome(outcome)}"]

    def _rules(self) -> list[str]:
        """The lines about the rules of the last operation: their numbers and, with a rulebook, their titles."""
        if not self.operations:
            return []
        action = self.model.instances[self.operations[-1]].action
        book = self.model.protocol.rulebook
        titles = {
            n: book[n].title if isinstance(book, Rulebook) and n in book else ""
            for n in numbers(action.source)
        }
        lines = [f"    {number}  {title}".rstrip() for number, title in titles.items()]
        return [f"  {action.name} follows", *lines] if lines else []


def check_contract(model: Model, contract: Contract) -> None:
    """Raises InputError if a contract names an action, a guard or a parameter that the model does not have."""
    actions = {action.name: action for action in model.protocol.actions()}
    guards = {guard.name for instance in model.instances for guard in instance.guards}
    for name in (*(contract.operations or ()), *contract.chosen):
        if name not in actions:
            raise InputError(unknown(f"action of {model.protocol.name}", name, actions))
    for action, parameters in contract.chosen.items():
        for name in parameters:
            known = model.parameters_of(actions[action])
            if name not in known:
                raise InputError(unknown(f"parameter of {action}", name, known))
    for name in (*contract.answers, *contract.idle):
        if name not in guards:
            raise InputError(unknown(f"guard of {model.protocol.name}", name, guards))


def _sentence(instance: Instance, shown: Mapping[str, Any]) -> str:
    if instance.action.says and len(shown) == len(instance.parameters):
        return instance.sentence
    return f"{instance.action.name}({', '.join(f'{k}={said(v)}' for k, v in shown.items())})"


def _outcome(outcome: Outcome) -> str:
    return "done" if outcome.done else f"refused{f' with {outcome.error}' if outcome.error else ''}"
