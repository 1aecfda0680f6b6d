"""The state space of one model by hand: take a step, see why another is refused, look for a state.

A path is the number of an initial state and then the numbers of the instances that were taken. It is text as well, the
address of a state: ``0.17.3``. Whatever is asked for is a function of a path, so that going back, branching and
restoring need nothing but the address.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from highwater.checker.asking.search import SearchOptions, SearchResult
from highwater.checker.base import words
from highwater.checker.base.problems import InputError
from highwater.checker.engines.by_name import search
from highwater.checker.explore import condition
from highwater.checker.telling.page.choices import POSSIBLE, Choices
from highwater.model.language import graph
from highwater.model.language.evaluation import compile_nodes
from highwater.model.language.interpreter import interpreter_of
from highwater.model.language.model import Instance, Model, Property, Scalars, said
from highwater.model.language.protocol import Invariant

LONGEST = 500
"""Steps of a path."""
_SOUGHT = "the state that is looked for"


@dataclass(frozen=True)
class Path:
    """An initial state by its number, and the instances that were taken from there on."""

    initial: int = 0
    steps: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Path:
        """From an address; InputError where it is none."""
        parts = text.split(".")
        if len(text) > 8 * LONGEST or not all(p.isascii() and p.isdecimal() and len(p) < 10 for p in parts):
            raise InputError(f"{text[:60]!r} is no address of a state: numbers with dots between them")
        first, *steps = map(int, parts)
        return cls(first, tuple(steps))

    def __str__(self) -> str:
        return ".".join(map(str, (self.initial, *self.steps)))

    def then(self, *steps: int) -> Path:
        """With more steps."""
        return Path(self.initial, (*self.steps, *steps))


@dataclass(frozen=True)
class NearestState:
    """What a search for a state came to: the path to it, or None; and how far the search went."""

    path: Path | None
    result: SearchResult


class Session:
    """One model, and what can be asked about its states."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.interpreter = interpreter_of(model)
        self.choices = Choices(model)

    def states(self, path: Path) -> list[Scalars]:
        """The states of a path, the initial one first. InputError where it is none of this model."""
        initial = self.model.initial
        if path.initial >= len(initial):
            raise InputError(
                f"there is no initial state {path.initial}: there are {len(initial):,}, from 0 on"
            )
        if len(path.steps) > LONGEST:
            raise InputError(f"a path has {LONGEST:,} steps at most")
        found = [initial[path.initial]]
        for place, number in enumerate(path.steps, 1):
            found.append(self.after(found[-1], number, f"step {place}"))
        return found

    def after(self, state: Scalars, number: int, what: str = "the step") -> Scalars:
        """The state that an instance leads to. InputError, with the guard that refuses, where it does not."""
        if number >= len(self.model.instances):
            raise InputError(f"{what}: there is no step {number}: there are {len(self.model.instances):,}")
        instance = self.model.instances[number]
        if refused := self.interpreter.refusals(state, instance):
            raise InputError(f"{what}: {instance} cannot be taken: {refused[0]!r} does not hold")
        step = self.interpreter.step(state, number)
        if step.state is None:
            raise InputError(f"{what}: {instance} is cut at {step.cut}")
        return step.state

    def number(self, action: str, parameters: Mapping[str, Any]) -> int:
        """The instance of an action with these parameters, as plain values; InputError where there is not one."""
        fitting = [
            number
            for number, i in enumerate(self.model.instances)
            if i.action.name == action and all(i.parameters.get(k) == v for k, v in parameters.items())
        ]
        if len(fitting) != 1:
            given = ", ".join(f"{k}={said(v)}" for k, v in parameters.items())
            known = "no step" if not fitting else f"{len(fitting)} steps"
            raise InputError(f"{action}({given}) stands for {known} of {self.model.protocol.name}")
        return fitting[0]

    def fates(self, state: Scalars) -> list[int]:
        """What becomes of each instance in a state: as ``checker.page.choices`` says it."""
        return self.choices.fates(state)

    def possible(self, state: Scalars) -> list[int]:
        """The instances that can be taken and lead to a state."""
        return [number for number, fate in enumerate(self.fates(state)) if fate == POSSIBLE]

    def refusals(self, state: Scalars, instance: Instance) -> list[str]:
        """All guards that refuse an instance."""
        return self.interpreter.refusals(state, instance)

    def violated(self, state: Scalars) -> list[str]:
        """The invariants that are false in a state."""
        return self.interpreter.violated(state)

    def broken(self, states: Sequence[Scalars]) -> list[str]:
        """The properties of steps that the last step of a path violates."""
        return list(self.interpreter.broken(states[-2], states[-1])) if len(states) > 1 else []

    def walk(self, path: Path, steps: int, seed: int) -> Path:
        """The path with so many random steps more, fewer where nothing can be done. The seed says which."""
        chance, state = random.Random(seed), self.states(path)[-1]
        taken: list[int] = []
        for _ in range(min(steps, LONGEST - len(path.steps))):
            possible = self.possible(state)
            if not possible:
                break
            taken.append(chance.choice(possible))
            state = self.after(state, taken[-1])
        return path.then(*taken)

    def holds(self, state: Scalars, text: str) -> bool:
        """Whether a condition holds in a state; see ``condition``. InputError where it is none."""
        (holds,) = compile_nodes([condition.condition(self.model, text)])(state)
        return bool(holds)

    def value(self, state: Scalars, text: str) -> Any:
        """What an expression reads from a state, as a plain value. InputError where it is none."""
        type_, nodes = condition.value(self.model, text)
        found = compile_nodes(nodes)(state)
        if type_ is not None:
            return type_.decode([int(v) for v in found])
        return found[0]

    def said(self, state: Scalars, text: str) -> str:
        """What an expression reads from a state, as a person reads it. InputError where it is none."""
        type_, nodes = condition.value(self.model, text)
        found = [int(v) for v in compile_nodes(nodes)(state)]
        if type_ is not None:
            return words.say(type_, type_.decode(found))
        (sort,) = (node.sort for node in nodes)
        return str(found[0]) if sort != graph.BOOL else "true" if found[0] else "false"

    def nearest(self, path: Path, text: str, options: SearchOptions | None = None) -> NearestState:
        """A shortest way on from the end of a path to a state in which a condition holds.

        It is searched for by the compiled engine. InputError where the text is no condition.
        """
        sought = condition.condition(self.model, text)
        state = self.states(path)[-1]
        seen = Property(Invariant(_SOUGHT, lambda m, s: True, ""), graph.not_(sought), graph.TRUE)
        from_here = copy.copy(self.model)
        vars(from_here).update(initial=[state], start=None, properties=[seen], liveness=[])
        result = search("native")(from_here, options or SearchOptions(stop_at_first=True), None)
        if not result.violations:
            return NearestState(None, result)
        return NearestState(path.then(*result.violations[0].path), result)


def pytest_of(session: Session, path: Path, scenario: str, changed: Mapping[str, Mapping[str, Any]]) -> str:
    """A path as a test for pytest: it takes the steps again, and asks that the invariants say the same at its end.

    ``changed`` are the parameters and the rules that are other than the scenario's own.
    """
    states = session.states(path)
    lines = [
        '"""A run found by hand."""',
        "",
        "import highwater",
        "",
        "",
        "def test_run() -> None:",
        f"    session = highwater.explore({scenario!r}{_options(changed)})",
        f"    path = highwater.Path({path.initial})",
        "    for action, parameters in [",
    ]
    for number in path.steps:
        instance = session.model.instances[number]
        lines.append(f"        ({instance.action.name!r}, {dict(instance.parameters)!r}),")
    lines += [
        "    ]:",
        "        path = path.then(session.number(action, parameters))",
        f"    assert session.violated(session.states(path)[-1]) == {session.violated(states[-1])!r}",
        "",
    ]
    return "\n".join(lines)


def _options(changed: Mapping[str, Mapping[str, Any]]) -> str:
    return "".join(f", {name}={dict(value)!r}" for name, value in changed.items() if value)
