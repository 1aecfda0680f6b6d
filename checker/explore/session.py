"""Manual exploration of one model: take a step, see why another is refused, search for a state.

A path is the index of an initial state followed by the indices of the instances taken. As text it is the address of a
state: ``0.17.3``. Every answer depends only on a path, so the address is enough to go back, to branch and to restore
the exploration.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any, NamedTuple

from msgspec import UNSET

from highwater.checker.base.problems import InputError
from highwater.checker.base.text import say
from highwater.checker.engines.by_name import search
from highwater.checker.explore import condition
from highwater.checker.report.page.content import POSSIBLE, Choices, content
from highwater.checker.report.page.run import ShownRun, taken
from highwater.checker.scenarios.request import Overrides, Request, asked
from highwater.checker.scenarios.search import SearchOptions, SearchResult
from highwater.model import registry
from highwater.model.language import Array, Index, Model, Set, Struct, graph
from highwater.model.language.graph import compile_nodes
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import interpreter_of
from highwater.model.language.model import Instance
from highwater.model.language.model import said as plainly
from highwater.model.language.protocol import ChoiceError
from highwater.model.language.types import IntType, Type
from highwater.traces.reading import TraceError
from highwater.traces.runs.format import StepLine, read_run

LONGEST = 500
"""The most steps of a path."""
SEARCH_SECONDS = 60.0
"""The most seconds of a search for a state."""


@dataclass(frozen=True)
class Path:
    """A path to a state: the index of an initial state, and the indices of the instances taken from there."""

    initial: int = 0
    steps: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Path:
        """Parse the text of a path. Raises InputError if it is invalid."""
        parts = text.split(".")
        if len(text) > 8 * LONGEST or not all(p.isascii() and p.isdecimal() and len(p) < 10 for p in parts):
            raise InputError(f"{text[:60]!r} is no address of a state: numbers with dots between them")
        first, *steps = map(int, parts)
        return cls(first, tuple(steps))

    def __str__(self) -> str:
        return ".".join(map(str, (self.initial, *self.steps)))

    def then(self, *steps: int) -> Path:
        """The path extended by these steps."""
        return Path(self.initial, (*self.steps, *steps))


class NearestState(NamedTuple):
    """The result of a search for a state: the path to it, or None, and the counts of the search."""

    path: Path | None
    result: SearchResult


class Session:
    """Explores one model by hand: it takes steps and evaluates conditions in states."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.interpreter = interpreter_of(model)
        self.choices = Choices(model)

    def states(self, path: Path) -> list[Scalars]:
        """The states along a path, the initial state first. Raises InputError if the model has no such path."""
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
        """The state after a step of the instance with this number.

        If the step cannot be taken, raises InputError with the guard that refuses it or the bound that prunes it.
        ``what`` names the step in the error.
        """
        if number >= len(self.model.instances):
            raise InputError(f"{what}: there is no step {number}: there are {len(self.model.instances):,}")
        instance = self.model.instances[number]
        if refused := self.interpreter.refusals(state, instance):
            raise InputError(f"{what}: {instance} cannot be taken: {refused[0]!r} does not hold")
        step = self.interpreter.step(state, number)
        if step.state is None:
            raise InputError(f"{what}: {instance} is pruned at {step.cut}")
        return step.state

    def number(self, action: str, parameters: Mapping[str, Any]) -> int:
        """The index of the instance of an action with these parameter values.

        ``parameters`` can leave parameters out. Raises InputError unless exactly one instance fits.
        """
        fitting = [
            number
            for number, i in enumerate(self.model.instances)
            if i.action.name == action and all(i.parameters.get(k) == v for k, v in parameters.items())
        ]
        if len(fitting) != 1:
            given = ", ".join(f"{k}={plainly(v)}" for k, v in parameters.items())
            known = "no step" if not fitting else f"{len(fitting)} steps"
            raise InputError(f"{action}({given}) stands for {known} of {self.model.protocol.name}")
        return fitting[0]

    def possible(self, state: Scalars) -> list[int]:
        """The indices of the instances that can be taken in a state and are not pruned at a bound."""
        return [number for number, fate in enumerate(self.choices.fates(state)) if fate == POSSIBLE]

    def steps(self, state: Scalars) -> dict[str, tuple[Instance, Scalars]]:
        """The steps that can be taken in a state: by its text, each instance with the state after it."""
        steps = [(self.model.instances[n], self.after(state, n)) for n in self.possible(state)]
        return {str(instance): (instance, after) for instance, after in steps}

    def violated(self, state: Scalars) -> list[str]:
        """The names of the invariants that are false in a state."""
        return self.interpreter.violated(state)

    def broken(self, states: Sequence[Scalars]) -> list[str]:
        """The names of the step properties that the last step of a path violates."""
        return list(self.interpreter.broken(states[-2], states[-1])) if len(states) > 1 else []

    def walk(self, path: Path, steps: int, seed: int) -> Path:
        """The path extended by up to ``steps`` random steps, which ``seed`` determines.

        It is shorter if it comes to a state without steps, or to ``LONGEST`` steps.
        """
        chance, state = random.Random(seed), self.states(path)[-1]
        taken: list[int] = []
        for _ in range(min(steps, LONGEST - len(path.steps))):
            possible = self.possible(state)
            if not possible:
                break
            taken.append(chance.choice(possible))
            state = self.after(state, taken[-1])
        return path.then(*taken)

    def said(self, state: Scalars, text: str) -> str:
        """The value of an expression in a state, as text. Raises InputError if the expression is invalid."""
        type_, nodes = condition.value(self.model, text)
        found = [int(v) for v in compile_nodes(nodes)(state)]
        if type_ is not None:
            return say(type_, type_.decode(found))
        (sort,) = (node.sort for node in nodes)
        return str(found[0]) if sort != graph.BOOL else "true" if found[0] else "false"

    def nearest(self, path: Path, text: str) -> NearestState:
        """Search for the nearest state in which a condition holds, from the last state of a path on.

        The compiled engine does the search. Raises InputError if the text is not a condition.
        """
        sought = condition.condition(self.model, text)
        from_here = self.model.seeking(sought, self.states(path)[-1])
        options = SearchOptions(stop_at_first=True, limit_seconds=SEARCH_SECONDS)
        result = search("native")(from_here, options, None)
        return NearestState(next((path.then(*found.path) for found in result.violations), None), result)


def read_trace(file: File) -> tuple[Request, list[StepLine]]:
    """The request and the lines of a trace. Raises InputError if the trace is unreadable or cannot be explored.

    A trace can be explored if it is a run of a built-in protocol with at most ``LONGEST`` lines. The run must begin
    in an initial state, and have an action at each step, without hidden steps.
    """
    try:
        trace = read_run(file)
        meta = trace.meta
        lines = []
        for line in trace.lines:
            if line.step and line.action is UNSET:
                raise line.place.wrong("the step has no action: what was not seen cannot be gone through")
            lines.append(line)
            if len(lines) > LONGEST:
                raise line.place.wrong(f"a run that is explored has {LONGEST:,} steps at most")
    except TraceError as wrong:
        raise InputError(str(wrong)) from None
    if meta.start != "initial" or meta.hidden_steps:
        raise InputError(
            f"{file}: only a run from an initial state on, without hidden steps, can be explored"
        )
    try:
        registry.protocol_of(meta.protocol)  # only a built-in name: a path would be executed as a program
    except ChoiceError as wrong:
        raise InputError(str(trace.place.at("protocol").wrong(str(wrong)))) from None
    request = asked(meta.protocol, parameters=meta.parameters, rules=meta.rules, profile=meta.profile)
    return request, lines


def path_of(session: Session, lines: list[StepLine]) -> Path:
    """The path that the lines of a trace describe. Raises InputError, with the line, if the model has no such step."""
    path = Path(_initial(session, lines))
    state = session.states(path)[-1]
    for line in lines:
        if line.action is UNSET:
            continue
        try:
            number = session.number(line.action, line.parameters)
            state = session.after(state, number)
        except InputError as wrong:
            raise InputError(str(line.place.wrong(str(wrong)))) from None
        path = path.then(number)
    return path


def _initial(session: Session, lines: list[StepLine]) -> int:
    """The index of the initial state that line 0 of a trace describes; 0 if the trace has no such line."""
    first = next((line for line in lines if line.step == 0 and line.state is not UNSET), None)
    if first is None:
        return 0
    for number, state in enumerate(session.model.initial):
        if session.model.decode(state) == first.state:
            return number
    raise InputError(str(first.place.wrong("this is no initial state of the model")))


WATCHED = 20
"""The most expressions in ``watch``; further ones are ignored."""

Arguments = Mapping[str, str]


class Answers:
    """The answers to the page's requests about one scenario. Each answer depends only on the request."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.session = Session(request.model())
        self._switched: dict[str, Session] = {}
        self.answers: dict[str, Callable[[Arguments], dict[str, Any]]] = {
            "run": self.run,
            "nearest": self.nearest,
            "random": self.random,
            "rule": self.rule,
        }

    def switched(self, rule: str) -> Session:
        """The session of the scenario with one rule switched to the opposite value."""
        if rule not in self._switched:
            rules = {**self.request.rules, rule: not self.request.rules[rule]}
            overrides = Overrides(dict(self.request.parameters), rules, profile=self.request.profile)
            model = Request.of(self.request.scenario, overrides).without_goals().model()
            self._switched[rule] = Session(model)
        return self._switched[rule]

    def _path(self, arguments: Arguments) -> Path:
        return Path.parse(arguments.get("path") or "0")

    def run(self, arguments: Arguments) -> dict[str, Any]:
        """The run to the state of ``path``, its violated properties, and the values of the expressions in ``watch``.

        ``watch`` has one expression per line.
        """
        path = self._path(arguments)
        states = self.session.states(path)
        data = content("", [_shown(self.session.model, path)])
        watched = [line for line in arguments.get("watch", "").splitlines() if line.strip()][:WATCHED]
        return {
            "run": data["runs"][0],
            "rules": data["rules"],
            "path": str(path),
            "violated": [*self.session.violated(states[-1]), *self.session.broken(states)],
            "initial": len(self.session.model.initial),
            "watched": [[text, *self._watched(states, text)] for text in watched],
        }

    def _watched(self, states: list[Any], text: str) -> tuple[bool, list[str]]:
        """True and the values of an expression in the states; if the text is invalid, False and the error."""
        try:
            values = [self.session.said(state, text) for state in states]
        except InputError as wrong:
            return False, [str(wrong)]
        return True, values

    def nearest(self, arguments: Arguments) -> dict[str, Any]:
        """The path to the nearest state after ``path`` in which the condition ``where`` holds, and the search's counts.

        The path is None if the search finds no such state.
        """
        path, result = self.session.nearest(self._path(arguments), arguments.get("where", ""))
        return {
            "path": None if path is None else str(path),
            "states": result.distinct_states,
            "complete": result.complete,
            "seconds": round(result.seconds, 3),
        }

    def random(self, arguments: Arguments) -> dict[str, Any]:
        """The path extended by ``steps`` random steps, which ``seed`` determines."""
        steps, seed = (_number(arguments, name, default) for name, default in (("steps", 10), ("seed", 0)))
        return {"path": str(self.session.walk(self._path(arguments), steps, seed))}

    def rule(self, arguments: Arguments) -> dict[str, Any]:
        """The instances whose effect in the state of ``path`` changes if the rule ``name`` is switched.

        ``more`` become enabled, ``less`` become disabled, and ``otherwise`` lead to another state. ``comparable`` is
        false, and the lists are empty, if the rule changes the fields of the state.
        """
        name = arguments.get("name", "")
        if name not in self.request.rules:
            raise InputError(f"there is no rule {name!r}")
        other = self.switched(name)
        state = self.session.states(self._path(arguments))[-1]
        if [leaf.path for leaf in other.model.leaves] != [leaf.path for leaf in self.session.model.leaves]:
            return {"name": name, "comparable": False, "more": [], "less": [], "otherwise": []}
        here, there = self.session.steps(state), other.steps(state)
        return {
            "name": name,
            "comparable": True,
            "more": [step.sentence for key, (step, _) in there.items() if key not in here],
            "less": [step.sentence for key, (step, _) in here.items() if key not in there],
            "otherwise": [
                step.sentence
                for key, (step, after) in here.items()
                if key in there and after != there[key][1]
            ],
        }


def _shown(model: Model, path: Path) -> ShownRun:
    return ShownRun("", "", tuple(taken(model, model.initial[path.initial], path.steps)))


def _number(arguments: Arguments, name: str, default: int) -> int:
    text = arguments.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise InputError(f"{name}: {text[:40]!r} is no number")
    return int(text)


def examples(state: Struct) -> tuple[str, str]:
    """A condition as an example, and an expression to watch as an example, made from the state's fields.

    Each is "" if the state has no simple field for it.
    """
    every = sorted(_simple(state, ""), key=lambda found: found[0].count("."))
    of_someone = sorted(every, key=lambda found: "[" not in found[0])
    number = next((f"{path} > {type.low}" for path, type in of_someone if isinstance(type, IntType)), "")
    members = next((f"size({path})" for path, type in every if isinstance(type, Set)), "")
    return number, members or number.partition(" ")[0]


def _simple(type: Type, path: str) -> Iterator[tuple[str, Type]]:
    """The path and the type of each value in a state, except structs; of an indexed array only element 0."""
    if isinstance(type, Struct):
        for name, field in type.fields.items():
            yield from _simple(field, f"{path}.{name}" if path else name)
    elif isinstance(type, Array) and isinstance(type.index, Index):
        yield from _simple(type.element, f"{path}[0]")
    else:
        yield path, type
