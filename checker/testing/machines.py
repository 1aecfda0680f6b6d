"""A protocol as a stateful machine for Hypothesis, which draws from the enabled actions with their parameters.

The interpreter is the engine. A step is drawn from the enabled steps, and after every step the properties are checked.
A run to a violation is shrunk by leaving out steps, and printed like every counterexample.
"""

from __future__ import annotations

try:
    import hypothesis as _needed  # noqa: F401
except ModuleNotFoundError:
    raise ImportError(
        "highwater.checker.testing.machines needs the package hypothesis: pip install 'highwater-checker[test]'"
    ) from None

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from highwater.checker.base.problems import InputError
from highwater.checker.report import counterexample
from highwater.checker.report.counterexample import Counterexample, TraceOutput
from highwater.checker.scenarios.request import Request, Subject, asked
from highwater.checker.scenarios.search import DEADLOCK, ViolatingRun
from highwater.model.language import Model
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import Interpreter

SETTINGS = settings(
    max_examples=1000,
    stateful_step_count=6,
    deadline=None,
    verbosity=Verbosity.quiet,
    suppress_health_check=list(HealthCheck),
    phases=[phase for phase in Phase if phase not in (Phase.shrink, Phase.explain)],
)
"""The initial ``TestCase.settings``: 1,000 runs of at most 6 bursts, 96 steps. Runs are shrunk and printed here, so
Hypothesis neither shrinks nor prints runs."""


class Violated(AssertionError):
    """A run that violates a property. The message and the attributes ``counterexample`` and ``violation`` have the run.

    Each property has its own subclass, so that Hypothesis reports every violated property.
    """

    def __init__(self, text: str, example: Counterexample, violation: ViolatingRun) -> None:
        super().__init__(text)
        self.counterexample, self.violation = example, violation


class Burst:
    """The names of successive steps, as Hypothesis prints them."""

    def __init__(self, steps: Iterable[str]) -> None:
        self.steps = tuple(steps)

    def __repr__(self) -> str:
        return "; ".join(self.steps) or "nothing"


@st.composite
def _steps(draw: st.DrawFn) -> Burst:
    """Draw the next steps of the running machine. Each step is taken when drawn, because the next depends on it."""
    running: BurstMachine = draw(st.runner())
    taste, orders = draw(bursts if running.swarm else plain_bursts)
    return Burst(running.go(taste, orders))


class BurstMachine(RuleBasedStateMachine):
    """The base class of machines that take steps of a model in bursts. A subclass has the state of a run."""

    model: ClassVar[Model]
    interpreter: ClassVar[Interpreter]
    preferences: ClassVar[Preferences]
    swarm: ClassVar[bool] = True
    failure: Any = None
    """The failure to which the run has come; None if there is none."""

    @classmethod
    def made(cls, name: str, doc: str, model: Model, **members: object) -> type[Self]:
        """A class of machines for a model, with these further members."""
        own = {"model": model, "interpreter": Interpreter(model), "preferences": Preferences(model)}
        made: type[Self] = type(name, (cls,), {"__doc__": doc, **own, **members})
        made.TestCase.settings = SETTINGS
        return made

    @rule(take=_steps())
    def step(self, take: Burst) -> None:
        """Raise the failure to which the drawn steps led, if any. They were taken when they were drawn."""
        __tracebackhide__ = True
        if self.failure is not None:
            self.fail()

    def fail(self) -> None:
        """Raise the run's failure, shrunk."""
        raise NotImplementedError

    def take(self, taste: int, order: int) -> int | None:
        """Choose a step, take it, and return its number; None if there is no step."""
        raise NotImplementedError

    def go(self, taste: int, orders: bytes) -> list[str]:
        """Choose and take one step for each of ``orders``, up to a failure or a state without steps.

        ``(taste, orders)`` is an element of ``bursts``: the taste weights the actions, and each order is a preference
        over the steps. Returns the names of the steps.
        """
        called: list[str] = []
        for order in filter(None, orders):
            number = self.take(taste, order) if self.failure is None else None
            if number is None:
                break
            called.append(str(self.model.instances[number]))
        return called

    def by_action(self, numbers: Iterable[int]) -> dict[str, list[int]]:
        """The numbers of instances, grouped by action."""
        found: dict[str, list[int]] = {}
        for number in numbers:
            found.setdefault(self.model.instances[number].action.name, []).append(number)
        return found


class ModelMachine(BurstMachine):
    """The base class of the machines that ``machine`` makes: the state of a run, and its next steps."""

    request: ClassVar[Request]
    failures: ClassVar[dict[str, type[Violated]]]
    best: ClassVar[dict[str, ViolatingRun]]
    """The shortest known run to a violation of each property."""
    traces: ClassVar[Path | None]

    def __init__(self) -> None:
        super().__init__()
        self.state: Scalars = ()
        self.initial: Scalars = ()
        self.path: list[int] = []
        self.possible: dict[str, list[int]] = {}
        """The enabled instances that are not known to be pruned at a bound, by action; no list is empty."""

    @initialize(start=st.runner().flatmap(lambda machine: st.sampled_from(machine.model.initial)))
    def begin(self, start: Scalars) -> None:
        """Start a run in one of the initial states."""
        __tracebackhide__ = True
        self.initial = start
        self.come_to(start)
        if self.failure is not None:
            self.fail()

    def come_to(self, state: Scalars, before: Scalars | None = None) -> None:
        """Move to a state: find its enabled steps, and check the properties of the state and of the step to it."""
        self.state, self.possible = state, self.by_action(self.interpreter.enabled(state))
        violated = self._violated(before, state)
        if not violated and not self.possible and self.request.deadlock:
            violated = [DEADLOCK]
        self.failure = violated[0] if violated else None

    def _violated(self, before: Scalars | None, state: Scalars) -> list[str]:
        """The names of the properties that a state, or the step to it, violates. ``before`` None: an initial state."""
        broken = [] if before is None else self.interpreter.broken(before, state)
        return self.interpreter.violated(state) + broken

    def take(self, taste: int, order: int) -> int | None:
        """Take the preferred enabled step that is not pruned at a bound."""
        while self.possible:
            number = self.preferences.among(taste, order, self.possible)
            after = self.interpreter.step(self.state, number).state
            if after is not None:
                self.path.append(number)
                self.come_to(after, self.state)
                return number
            action = self.model.instances[number].action.name
            self.possible[action].remove(number)
            if not self.possible[action]:
                del self.possible[action]
        return None

    def fail(self) -> None:
        """Raise the violation of the run, shrunk."""
        __tracebackhide__ = True
        name: str = self.failure
        best = self.best.get(name)
        if best is None or len(self.path) <= len(best.path):
            straight = self._again(self.path, name) or self.path
            path = shrunk(straight, lambda path: self._again(path, name))
            best = self.best[name] = ViolatingRun(name, self.initial, tuple(path))
        example = counterexample.follow(self.model, self.interpreter, best)
        text = "\n".join(counterexample.plain(self.model, example))
        if self.traces is not None:
            self.traces.mkdir(parents=True, exist_ok=True)
            target = self.traces / f"{name}.ndjson"
            TraceOutput(str(target)).write_violation(self.request, self.model, [best], example)
            text += f"\n\nThe run as a trace: {target}"
        raise self.failures[name](text, example, best)

    def _again(self, path: Sequence[int], name: str) -> list[int] | None:
        """Take the steps of ``path`` that are enabled, up to a violation of ``name``, and return the steps taken.

        Loops back to an earlier state of the run are left out. None if there is no violation.
        """
        states, taken = [self.initial], list[int]()
        for number in path:
            after = None
            if number in self.interpreter.enabled(states[-1]):
                after = self.interpreter.step(states[-1], number).state
            if after is None:
                continue
            if name in self._violated(states[-1], after):
                return [*taken, number]
            if after in states:
                been = states.index(after)
                del states[been + 1 :], taken[been:]
                continue
            taken.append(number)
            states.append(after)
        if name == DEADLOCK and not self.interpreter.enabled(states[-1]):
            return taken
        return None


def machine(
    subject: Subject,
    *,
    swarm: bool = True,
    traces: str | PathLike[str] | None = None,
    name: str | None = None,
    **overrides: Any,
) -> type[ModelMachine]:
    """A Hypothesis state machine class for a scenario or a protocol.

    ``subject`` and overrides are as for ``highwater.checker.scenarios.request.asked``. A test suite collects the
    class's ``TestCase``; settings, seeds and the example database are those of Hypothesis. A violation raises
    ``Violated``. ``traces`` is a directory for the shrunk run to each property's violation (``PROPERTY.ndjson``).
    Without ``swarm`` all actions are equally likely. Raises InputError if the subject does not exist or ``traces`` is
    a file.
    """
    request = asked(subject, **overrides).without_goals()
    if traces is not None and Path(traces).exists() and not Path(traces).is_dir():
        raise InputError(f"traces={str(traces)!r} is no directory")
    model = request.model()
    return ModelMachine.made(
        name or _title(request.scenario.name),
        f"{request.scenario.name}: {request.scenario.title}",
        model,
        request=request,
        failures={n: type(f"Violated[{n}]", (Violated,), {}) for n in request.properties},
        best={},
        traces=None if traces is None else Path(traces),
        swarm=swarm,
    )


def _title(name: str) -> str:
    text = "".join(c if c.isalnum() else " " for c in Path(name).name.split(".")[0])
    return "".join(word.title() for word in text.split()) or "Machine"


Item = TypeVar("Item")


def shrunk(items: Sequence[Item], attempt: Callable[[Sequence[Item]], Sequence[Item] | None]) -> list[Item]:
    """Shrink a failing sequence to a short subsequence that fails.

    ``attempt`` takes a sequence and returns the part that was carried out up to the failure, or None if it does not
    fail. Pieces are left out, large ones first (Zeller and Hildebrandt, 2002), until no single item can be left out.
    """
    current = list(items)
    size = max(1, len(current) // 2)
    while True:
        smaller, end = False, len(current)
        while end > 0:  # from the end: later items depend on earlier ones
            end = min(end, len(current))
            start = max(0, end - size)
            found = attempt(current[:start] + current[end:])
            if found is not None and len(found) < len(current):
                current, smaller = list(found), True
            end = start
        if size > 1:
            size = max(1, size // 2)
        elif not smaller:
            return current


TASTES = 256
"""The number of tastes: random weightings of the actions, as in swarm testing."""

WEIGHTS = (1, 4, 16, 64, 256)
"""The weights that a taste can give to an action."""

BURST = (8, 16)
"""The least and the most steps of a burst: steps with one taste, drawn together by one rule of Hypothesis."""

_orders = st.binary(min_size=BURST[0], max_size=BURST[1])

bursts = st.tuples(st.integers(0, TASTES - 1), _orders)
"""A taste, and an order of preference (one byte) for each step. Byte 0 means no step."""

plain_bursts = st.tuples(st.just(0), _orders)
"""Bursts without swarm testing: the taste is always 0, which weights all actions equally."""


class Preferences:
    """Orders of preference over a model's actions, and over its instances.

    A step is drawn as the number of an order, 1 to 255; the first enabled step in this order is taken. The taste sets
    the likelihood of each action; the instances of an action are equally likely. If Hypothesis leaves a step out,
    later numbers mostly stand for the same steps as before. Indices into the list of enabled steps would stand for
    other steps.
    """

    def __init__(self, model: Model) -> None:
        self._names = sorted({i.action.name for i in model.instances})
        self._count = len(model.instances)
        self._actions = cache(self._order_of_actions)
        self._instances = cache(self._order_of_instances)
        self._weights = cache(self._taste)

    def among(self, taste: int, order: int, possible: Mapping[str, Sequence[int]]) -> int:
        """The instance that comes first in this order, of the action that comes first; ``possible`` is by action."""
        place, weight = self._actions(order), self._weights(taste)
        numbers = possible[min(possible, key=lambda name: place[name] / weight[name])]
        return min(numbers, key=self._instances(order).__getitem__)

    def _order_of_actions(self, order: int) -> dict[str, float]:
        # ``among`` divides these exponential variables by the weights. An action then comes first with a probability
        # in proportion to its weight.
        dice = random.Random(f"actions {order}")
        return {name: -math.log(1 - dice.random()) for name in self._names}

    def _order_of_instances(self, order: int) -> list[int]:
        places = list(range(self._count))
        random.Random(f"instances {order}").shuffle(places)
        return places

    def _taste(self, taste: int) -> dict[str, int]:
        dice = random.Random(f"taste {taste}")
        return {name: dice.choice(WEIGHTS) if taste else 1 for name in self._names}
