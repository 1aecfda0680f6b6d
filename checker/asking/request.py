"""A scenario as it is asked for: what its file states, and over it what the command line sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial

from highwater.checker.asking import catalogue, checked
from highwater.checker.asking.checked import Checked
from highwater.checker.asking.consulted import refuse_unconsulted
from highwater.checker.asking.scenarios import (
    Absent,
    Scenario,
    chosen_goals,
    chosen_liveness,
    chosen_properties,
    chosen_step_properties,
    goals_among,
)
from highwater.checker.asking.search import DEADLOCK
from highwater.checker.base.problems import InputError
from highwater.model.language.liveness import Liveness
from highwater.model.language.model import Model
from highwater.model.language.protocol import (
    ChoiceError,
    Conditional,
    Invariant,
    parameter_of,
    profile_of,
    rule_of,
    why_absent,
)
from highwater.model.language.reachability import Goal
from highwater.model.language.step_properties import StepProperty
from highwater.model.language.types import widening

OPTION = "--property"
"""The option that names the properties and goals to check."""
_SYMMETRY = "fairness tells steps apart that symmetry identifies; use --no-symmetry"
_OUTSIDE = "--outside takes no step outside the bounds"
"""Why a liveness property that nothing names is not checked."""


@dataclass(frozen=True)
class Overrides:
    """What a command line sets in place of what the scenario's file says."""

    parameters: Mapping[str, int] = field(default_factory=dict)
    rules: Mapping[str, bool] = field(default_factory=dict)
    profile: str | None = None
    properties: tuple[str, ...] = ()
    symmetry: bool | None = None
    deadlock: bool | None = None
    outside: bool = False

    @classmethod
    def parse(
        cls,
        settings: Sequence[str] = (),
        rules: Sequence[str] = (),
        profile: str | None = None,
        properties: Sequence[str] = (),
        symmetry: bool | None = None,
        deadlock: bool | None = None,
        outside: bool = False,
    ) -> Overrides:
        """From the texts of the options; InputError where one has not the form that it should have."""
        return cls(
            dict(_setting(text) for text in settings),
            dict(_switch(text) for text in rules),
            profile,
            tuple(properties),
            symmetry,
            deadlock,
            outside,
        )

    @property
    def void(self) -> bool:
        """Whether these make void what the scenario promises to be violated."""
        return bool(
            self.parameters or self.rules or self.profile or self.properties or self.deadlock is not None
        )


@dataclass(frozen=True, repr=False)
class Request:
    """What is to be checked: parameters and rules, each with its value, and the properties.

    ``as_written`` tells whether the scenario's promise applies, ``counts_promised`` whether its counts do.
    """

    scenario: Scenario
    profile: str | None
    parameters: Mapping[str, int]
    rules: Mapping[str, bool]
    invariants: tuple[Invariant, ...]
    symmetry: bool
    deadlock: bool
    as_written: bool
    counts_promised: bool
    liveness: tuple[Liveness, ...] = ()
    step_properties: tuple[StepProperty, ...] = ()
    outside: bool = False
    """Whether states just outside the bounds are checked, too."""
    withheld: tuple[tuple[Liveness, str], ...] = ()
    """The liveness properties that nothing names and that cannot be checked here, each with the reason."""
    narrowed_by: str = ""
    """What names the properties to check: a scenario, or an option; empty: nothing, so all that are declared."""
    goals: tuple[Goal, ...] = ()
    """The reachability goals to reach; they are not among the properties."""

    @classmethod
    def of(cls, scenario: Scenario, overrides: Overrides) -> Request:
        """A scenario with these overrides; InputError where a name is unknown or a value out of range."""
        protocol = scenario.protocol
        for key, value in overrides.parameters.items():
            with _option(f"--set {key}={value}"):
                parameter_of(protocol, key, value)
        for key, on in overrides.rules.items():
            with _option(f"--rule {key}={'on' if on else 'off'}"):
                rule_of(protocol, key)
        with _option(f"--profile {overrides.profile}"):
            if overrides.profile is not None:
                profile_of(protocol, overrides.profile)
        profile = overrides.profile or scenario.profile
        rules = scenario.rule_values(profile, scenario.rules, overrides.rules)
        parameters = scenario.parameter_values(overrides.parameters)
        absent = partial(why_absent, rules.__getitem__, parameters)
        names = _properties(scenario, overrides)
        with _option(OPTION if overrides.properties else "properties"):
            invariants = chosen_properties(scenario.definition, absent, names)
            step_properties = chosen_step_properties(scenario.definition, absent, names)
            liveness = chosen_liveness(scenario.definition, absent, names)
        symmetry = scenario.symmetry if overrides.symmetry is None else overrides.symmetry
        withheld: tuple[tuple[Liveness, str], ...] = ()
        if names is None and (overrides.outside or symmetry):
            why = _OUTSIDE if overrides.outside else _SYMMETRY
            withheld, liveness = tuple((p, why) for p in liveness), ()
        if symmetry and liveness:
            raise InputError(
                f"{scenario.name}: {', '.join(p.name for p in liveness)} cannot be checked with symmetry: fairness "
                "is about steps that symmetry takes for each other; use --no-symmetry"
            )
        named_deadlock = DEADLOCK in (names or ())
        deadlock = named_deadlock or (
            (scenario.deadlock and not overrides.properties)
            if overrides.deadlock is None
            else overrides.deadlock
        )
        if overrides.outside and (liveness or deadlock):
            asked = ", ".join([p.name for p in liveness] + [DEADLOCK] * deadlock)
            raise InputError(
                f"{scenario.name}: {asked} cannot be checked with --outside, as no step is taken "
                "outside the bounds; ask with --property invariants"
            )
        return cls(
            scenario=scenario,
            profile=profile,
            parameters=parameters,
            rules=rules,
            invariants=invariants,
            symmetry=symmetry,
            deadlock=deadlock,
            as_written=not overrides.void,
            counts_promised=not overrides.void and symmetry == scenario.symmetry and not overrides.outside,
            liveness=liveness,
            step_properties=step_properties,
            outside=overrides.outside,
            withheld=withheld,
            narrowed_by=OPTION if overrides.properties else "the scenario" if names is not None else "",
            goals=_goals(scenario, overrides, absent),
        )

    def without_symmetry(self) -> Request:
        """The same without reduction by symmetry; where that changes it, counts are no longer promised."""
        if not self.symmetry:
            return self
        back = () if self.outside else self.withheld
        return replace(
            self,
            symmetry=False,
            counts_promised=False,
            liveness=(*self.liveness, *(p for p, _ in back)),
            withheld=() if back else self.withheld,
        )

    def for_walks(self) -> Request:
        """The same for random walks. InputError where liveness alone was named."""
        request = self.without_symmetry().for_first()
        return request.safety_only("a random walk has no end; use `highwater check`")

    def for_first(self) -> Request:
        """The same for a search that ends at its first violation: with goals only if nothing else is checked."""
        return self.without_goals() if self.properties else self

    def without_goals(self) -> Request:
        """The same without reachability goals."""
        return replace(self, goals=())

    def with_rules(self, rules: Mapping[str, bool]) -> Request:
        """The same with some rules switched and no properties, to be compared with another."""
        return replace(
            self,
            rules={**self.rules, **rules},
            invariants=(),
            step_properties=(),
            liveness=(),
            goals=(),
            as_written=False,
        )

    def safety_only(self, why: str) -> Request:
        """The same without liveness properties; InputError, with the reason, where nothing else was named."""
        if (
            self.narrowed_by
            and self.liveness
            and not (self.invariants or self.step_properties or self.deadlock or self.goals)
        ):
            raise InputError(f"{', '.join(p.name for p in self.liveness)}: {why}")
        return replace(self, liveness=(), withheld=(*self.withheld, *((p, why) for p in self.liveness)))

    def __repr__(self) -> str:
        """The scenario and its settings; rules are named where they are off."""
        settings = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        off = ", ".join(name for name, on in self.rules.items() if not on)
        return f"<{self.scenario.name}: {settings}{f'; without {off}' if off else ''}>"

    @property
    def properties(self) -> list[str]:
        """The names of what is checked."""
        named = [p.name for p in self.invariants] + [p.name for p in self.step_properties]
        return named + [p.name for p in self.liveness] + [DEADLOCK] * self.deadlock

    @property
    def expected(self) -> frozenset[str]:
        """The properties that engines are expected to find violated: goals are found by their negation."""
        return self.scenario.promise.violated | {goal.name for goal in self.goals}

    def why_absent(self, stated: Conditional) -> str:
        """Why an action or a property does not exist here; "" where it does."""
        return why_absent(self.rules.__getitem__, self.parameters, stated)

    @property
    def checked(self) -> Checked:
        """What is checked, by kind, and which declared properties are not."""
        withheld = {p.name: why for p, why in self.withheld}
        left = checked.left_out(
            self.scenario.definition, self.why_absent, self.properties, withheld, self.narrowed_by
        )
        return Checked(
            tuple(p.name for p in self.invariants),
            tuple(p.name for p in self.step_properties),
            tuple(p.name for p in self.liveness),
            self.deadlock,
            tuple(left),
        )

    def model(self, kind: Callable[..., Model] = Model) -> Model:
        """Trace the protocol. Raises LanguageError or InputError where its text cannot be used."""
        definition = self.scenario.definition
        with catalogue.blaming(definition.file), widening() if self.outside else nullcontext():
            protocol = definition.protocol(self.parameters, (name for name, on in self.rules.items() if on))
            invariants = (*self.invariants, *(g for g in self.goals if isinstance(g, Invariant)))
            of_steps = (*self.step_properties, *(g for g in self.goals if isinstance(g, StepProperty)))
            traced = kind(protocol, invariants, self.liveness, of_steps)
            _ = traced.start  # so that what is wrong with the initial states is said now
            refuse_unconsulted(definition, protocol)
        return traced


def _properties(scenario: Scenario, overrides: Overrides) -> tuple[str, ...] | None:
    """The names of the properties that an option or the scenario names, without goals; None: neither names any."""
    if not overrides.properties:
        return scenario.properties
    goals = goals_among(scenario.definition, overrides.properties)
    return tuple(name for name in overrides.properties if name not in goals)


def _goals(scenario: Scenario, overrides: Overrides, absent: Absent) -> tuple[Goal, ...]:
    """The goals that an option names; else those of the scenario that exist, of which --outside checks none."""
    if not overrides.properties:
        existing = {g.name for g in scenario.definition.reachable if not absent(g)}
        expected = () if overrides.outside else scenario.promise.reachable
        return chosen_goals(scenario.definition, absent, (name for name in expected if name in existing))
    named = goals_among(scenario.definition, overrides.properties)
    with _option(OPTION):
        if named and overrides.outside:
            raise InputError(f"{named[0]} is a reachability goal: --outside checks properties only")
        return chosen_goals(scenario.definition, absent, named)


class _option:
    """Puts an option's text before what is wrong inside, as an InputError."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, wrong: BaseException | None, trace: object) -> None:
        if isinstance(wrong, (InputError, ChoiceError)):
            raise InputError(f"{self.text}: {wrong}") from None


def _setting(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise InputError(f"--set {text}: write NAME=VALUE")
    try:
        return name, int(value)
    except ValueError:
        raise InputError(f"--set {text}: the value is a whole number, not {value!r}") from None


def _switch(text: str) -> tuple[str, bool]:
    name, equals, value = text.partition("=")
    if not (name and equals) or value not in ("on", "off"):
        raise InputError(f"--rule {text}: write NAME=on or NAME=off")
    return name, value == "on"
