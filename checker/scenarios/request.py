"""Requests: a scenario with overrides, the properties to check, and the reasons why others are not checked.

The verdict, ``highwater show`` and the keys ``checked`` and ``not_checked`` of JSON all report the same list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from os import PathLike
from pathlib import Path
from typing import TypedDict, Unpack

from highwater.checker.base.problems import InputError
from highwater.checker.scenarios import catalogue, scenario_files
from highwater.checker.scenarios.catalogue import Definition, refuse_unconsulted
from highwater.checker.scenarios.scenario_files import (
    Absent,
    Scenario,
    chosen,
    chosen_goals,
    goals_among,
)
from highwater.checker.scenarios.search import DEADLOCK
from highwater.model import registry
from highwater.model.language import Invariant, Liveness, Model, Protocol, StepProperty
from highwater.model.language.model import Outline
from highwater.model.language.protocol import (
    ChoiceError,
    Conditional,
    Goal,
    parameter_value,
    profile_of,
    rule_of,
    why_absent,
)

_KINDS = {
    "invariants": ("invariant", "invariants"),
    "step_properties": ("step property", "step properties"),
    "liveness": ("liveness property", "liveness properties"),
    "helpers": ("helper", "helpers"),
}
"""The attributes of a Definition that list properties, each with its singular and its plural in words."""
_BY_NAME = ("helpers",)
"""The kinds that are checked only if a scenario or an option names them."""
_RULE, _RULES_OFF = "the rule ", "their rules are off"
_NAMED = 2
"""Up to this many properties of a kind are named in a sentence; more are counted."""


@dataclass(frozen=True)
class NotChecked:
    """A declared property that is not checked: ``kind`` is a key of ``_KINDS``, ``why`` completes "not checked: …"."""

    name: str
    kind: str
    why: str


@dataclass(frozen=True)
class Checked:
    """The names of the properties that are checked, by kind, and the declared properties that are not.

    A helper that is checked is listed among the invariants or the step properties.
    """

    invariants: tuple[str, ...]
    step_properties: tuple[str, ...]
    liveness: tuple[str, ...]
    deadlock: bool
    left_out: tuple[NotChecked, ...]

    def undecided(self, liveness: Collection[str]) -> Checked:
        """A copy in which the given liveness properties are not checked, because the search stopped first."""
        why = "the search stopped first"
        left = tuple(NotChecked(name, "liveness", why) for name in self.liveness if name in liveness)
        decided = tuple(name for name in self.liveness if name not in liveness)
        return replace(self, liveness=decided, left_out=(*left, *self.left_out))

    def without(self, names: Collection[str]) -> Checked:
        """A copy in which ``left_out`` does not have the properties ``names``."""
        return replace(self, left_out=tuple(n for n in self.left_out if n.name not in names))

    def as_json(self) -> dict[str, object]:
        """The value of the keys ``checked`` and ``not_checked`` of a result."""
        return {
            "checked": {
                "invariants": list(self.invariants),
                "step_properties": list(self.step_properties),
                "liveness": list(self.liveness),
                DEADLOCK: self.deadlock,
            },
            "not_checked": [{"property": n.name, "kind": n.kind, "why": n.why} for n in self.left_out],
        }

    @property
    def sentence(self) -> str:
        """One line: the number of checked properties of each kind, and the properties not checked, with reasons."""
        return "; ".join(filter(None, (f"checked: {_counted([self])}", self.rest)))

    @property
    def rest(self) -> str:
        """The part of the sentence about properties that are not checked; "" if all are."""
        left = "; ".join(_left_out(self.left_out))
        return f"not checked: {left}" if left else ""


def left_out(
    definition: Definition,
    absent: Callable[[Conditional], str],
    checked: Collection[str],
    withheld: Mapping[str, str],
    narrowed_by: str,
) -> Iterator[NotChecked]:
    """The declared properties that are not among ``checked``, with reasons.

    ``withheld`` has reasons by property name. ``absent`` gives the reason why a property does not exist, or "".
    ``narrowed_by`` is the option or key that names the properties to check; "" if there is none.
    """
    for kind in _KINDS:
        for stated in getattr(definition, kind):
            if stated.name in checked:
                continue
            if stated.name in withheld:
                why = withheld[stated.name]
            elif kind in _BY_NAME:
                why = "checked only by name"
            elif why := absent(stated):
                pass
            else:
                why = f"not named by {narrowed_by}"
            yield NotChecked(stated.name, kind, why)


def total(of: Sequence[Checked]) -> str:
    """One line for several scenarios: the number of checked properties, and of scenarios that skip properties."""
    some = sum(any(n.kind not in _BY_NAME for n in one.left_out) for one in of)
    rest = f"; {some} of {len(of)} scenarios leave some declared property out" if some else ""
    return f"checked: {_counted(of)}{rest}"


def _counted(of: Iterable[Checked]) -> str:
    counts: Counter[str] = Counter()
    for one in of:
        for kind in ("invariants", "step_properties", "liveness"):
            counts[kind] += len(getattr(one, kind))
        counts[DEADLOCK] += one.deadlock
    counted = [f"{counts[kind]:,} {_KINDS[kind][counts[kind] != 1]}" for kind in _KINDS if counts[kind]]
    return ", ".join(counted + [DEADLOCK] * bool(counts[DEADLOCK])) or "no property"


def _left_out(left: Sequence[NotChecked]) -> Iterator[str]:
    """The texts about properties that are not checked, by reason; the kinds in the order of ``_KINDS``."""
    off = dict.fromkeys(n.why for n in left if n.why.startswith(_RULE))
    whys = {n: _RULES_OFF if n.why in off and len(off) > 1 else n.why for n in left}
    for why in dict.fromkeys(whys.values()):
        groups = groupby((n for n in left if whys[n] == why), key=lambda n: n.kind)
        parts = []
        for kind, members in groups:
            names = [n.name for n in members]
            one, many = _KINDS[kind]
            few = len(names) <= _NAMED
            parts.append(
                f"{one if len(names) == 1 else many} {' and '.join(names)}" if few else f"{len(names)} {many}"
            )
        yield f"{', '.join(parts)} ({why})"


# --- requests -----------------------------------------------------------------------------------------

OPTION = "--property"
"""The option that names the properties and goals to check."""
_SYMMETRY = "fairness tells steps apart that symmetry identifies; use --no-symmetry"
"""The reason for not checking a liveness property that neither an option nor the scenario names."""


@dataclass(frozen=True)
class Overrides:
    """The settings of a command line that override the scenario's file."""

    parameters: Mapping[str, int] = field(default_factory=dict)
    rules: Mapping[str, bool] = field(default_factory=dict)
    profile: str | None = None
    properties: tuple[str, ...] = ()
    symmetry: bool | None = None
    deadlock: bool | None = None

    @classmethod
    def parse(
        cls,
        settings: Sequence[str] = (),
        rules: Sequence[str] = (),
        profile: str | None = None,
        properties: Sequence[str] = (),
        symmetry: bool | None = None,
        deadlock: bool | None = None,
    ) -> Overrides:
        """Parse the texts of the options. Raises InputError for an invalid text."""
        return cls(
            dict(_setting(text) for text in settings),
            dict(_switch(text) for text in rules),
            profile,
            tuple(properties),
            symmetry,
            deadlock,
        )

    @property
    def void(self) -> bool:
        """True if the overrides turn the scenario's expectations off."""
        return bool(
            self.parameters or self.rules or self.profile or self.properties or self.deadlock is not None
        )


@dataclass(frozen=True, repr=False)
class Request:
    """A scenario to check: parameters and rules, each with its value, and the properties.

    ``as_written``: True if the scenario's expectations apply. ``counts_expected``: True if the expected numbers of
    states and levels apply, too.
    """

    scenario: Scenario
    profile: str | None
    parameters: Mapping[str, int]
    rules: Mapping[str, bool]
    invariants: tuple[Invariant, ...]
    symmetry: bool
    deadlock: bool
    as_written: bool
    counts_expected: bool
    liveness: tuple[Liveness, ...] = ()
    step_properties: tuple[StepProperty, ...] = ()
    withheld: tuple[tuple[Liveness, str], ...] = ()
    """Liveness properties that this request cannot check, each with the reason."""
    narrowed_by: str = ""
    """The source of the list of properties: the scenario or an option; empty if all declared properties are checked."""
    goals: tuple[Goal, ...] = ()
    """The reachability goals to search for, which do not count as properties."""

    @classmethod
    def of(cls, scenario: Scenario, overrides: Overrides) -> Request:
        """The request for a scenario with overrides. Raises InputError for an unknown name or a value out of range.

        Also raises InputError if a property to check cannot be checked with symmetry reduction.
        """
        protocol = scenario.protocol
        changes = {key: _value(protocol, key, value) for key, value in overrides.parameters.items()}
        for key, on in overrides.rules.items():
            with _option(f"--rule {key}={'on' if on else 'off'}"):
                rule_of(protocol, key)
        with _option(f"--profile {overrides.profile}"):
            if overrides.profile is not None:
                profile_of(protocol, overrides.profile)
        profile = overrides.profile or scenario.profile
        rules = scenario.rule_values(profile, scenario.rules, overrides.rules)
        parameters = scenario.parameter_values(changes)
        absent = partial(why_absent, rules.__getitem__, parameters)
        names = _properties(scenario, overrides)
        with _option(OPTION if overrides.properties else "properties"):
            invariants, step_properties, liveness = chosen(scenario.definition, absent, names)
        symmetry = scenario.symmetry if overrides.symmetry is None else overrides.symmetry
        withheld: tuple[tuple[Liveness, str], ...] = ()
        if symmetry and names is None:
            withheld, liveness = tuple((p, _SYMMETRY) for p in liveness), ()
        if symmetry and liveness:
            raise InputError(
                f"{scenario.name}: {', '.join(p.name for p in liveness)} cannot be checked with symmetry: fairness "
                "tells steps apart that symmetry identifies; use --no-symmetry"
            )
        named_deadlock = DEADLOCK in (names or ())
        deadlock = named_deadlock or (
            (scenario.deadlock and not overrides.properties)
            if overrides.deadlock is None
            else overrides.deadlock
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
            counts_expected=not overrides.void and symmetry == scenario.symmetry,
            liveness=liveness,
            step_properties=step_properties,
            withheld=withheld,
            narrowed_by=OPTION if overrides.properties else "the scenario" if names is not None else "",
            goals=_goals(scenario, overrides, absent),
        )

    def without_symmetry(self) -> Request:
        """This request without symmetry reduction.

        If it had symmetry reduction, the expected counts no longer apply, and it now checks the liveness properties
        that were withheld because of symmetry.
        """
        if not self.symmetry:
            return self
        return replace(
            self,
            symmetry=False,
            counts_expected=False,
            liveness=(*self.liveness, *(p for p, _ in self.withheld)),
            withheld=(),
        )

    def for_walks(self) -> Request:
        """This request for random walks: without symmetry reduction and without liveness properties.

        If it has properties, its goals are left out, too. Raises InputError if only liveness properties were named.
        """
        request = self.without_symmetry().for_first()
        return request.safety_only("a random walk has no end; use `highwater check`")

    def for_first(self) -> Request:
        """This request for a search that ends at its first violation: without goals if it has properties."""
        return self.without_goals() if self.properties else self

    def without_goals(self) -> Request:
        """This request without reachability goals."""
        return replace(self, goals=())

    def with_rules(self, rules: Mapping[str, bool]) -> Request:
        """This request with some rules switched, for a comparison with another request.

        It has neither properties nor goals; only ``deadlock`` stays as it is.
        """
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
        """This request with its liveness properties listed as not checked, for the reason ``why``.

        Raises InputError if only liveness properties were named.
        """
        if (
            self.narrowed_by
            and self.liveness
            and not (self.invariants or self.step_properties or self.deadlock or self.goals)
        ):
            raise InputError(f"{', '.join(p.name for p in self.liveness)}: {why}")
        return replace(self, liveness=(), withheld=(*self.withheld, *((p, why) for p in self.liveness)))

    def as_json(self, engine: str) -> dict[str, object]:
        """The first keys of a result in JSON: the scenario, the engine and the settings."""
        return {
            "scenario": self.scenario.name,
            "protocol": self.scenario.definition.name,
            "profile": self.profile,
            "engine": engine,
            "parameters": dict(self.parameters),
            "rules": dict(self.rules),
        }

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        off = ", ".join(name for name, on in self.rules.items() if not on)
        return f"<{self.scenario.name}: {settings}{f'; without {off}' if off else ''}>"

    @property
    def properties(self) -> list[str]:
        """The names of the checked properties."""
        named = [p.name for p in self.invariants] + [p.name for p in self.step_properties]
        return named + [p.name for p in self.liveness] + [DEADLOCK] * self.deadlock

    @property
    def expected(self) -> frozenset[str]:
        """The names that engines are expected to report as violated: expected violations, and all goals.

        Engines report a reached goal as a violation.
        """
        return self.scenario.expectation.violated | {goal.name for goal in self.goals}

    def why_absent(self, stated: Conditional) -> str:
        """The reason why an action or a property does not exist under this request; "" if it exists."""
        return why_absent(self.rules.__getitem__, self.parameters, stated)

    @property
    def checked(self) -> Checked:
        """The checked properties by kind, and the declared properties that are not checked."""
        withheld = {p.name: why for p, why in self.withheld}
        left = left_out(
            self.scenario.definition, self.why_absent, self.properties, withheld, self.narrowed_by
        )
        return Checked(
            tuple(p.name for p in self.invariants),
            tuple(p.name for p in self.step_properties),
            tuple(p.name for p in self.liveness),
            self.deadlock,
            tuple(left),
        )

    def model(self, kind: Callable[..., Model] = Model, outline: Outline | None = None) -> Model:
        """Trace the protocol as a model of class ``kind``; with the ``outline`` of an equal model, when it is needed.

        Raises LanguageError or InputError if the protocol's text is invalid.
        """
        definition = self.scenario.definition
        with catalogue.blaming(definition.file):
            protocol = definition.protocol(self.parameters, (name for name, on in self.rules.items() if on))
            invariants = (*self.invariants, *(g for g in self.goals if isinstance(g, Invariant)))
            of_steps = (*self.step_properties, *(g for g in self.goals if isinstance(g, StepProperty)))
            if outline is not None:
                return kind(protocol, invariants, self.liveness, of_steps, outline=outline)
            traced = kind(protocol, invariants, self.liveness, of_steps)
            _ = traced.start  # raises errors of the initial states now
            refuse_unconsulted(definition, protocol)
        return traced


def _properties(scenario: Scenario, overrides: Overrides) -> tuple[str, ...] | None:
    """The properties that an option or the scenario names, without goals; None if neither names properties."""
    if not overrides.properties:
        return scenario.properties
    goals = goals_among(scenario.definition, overrides.properties)
    return tuple(name for name in overrides.properties if name not in goals)


def _goals(scenario: Scenario, overrides: Overrides, absent: Absent) -> tuple[Goal, ...]:
    """The goals to search for: those that an option names, or else the scenario's goals that exist."""
    if not overrides.properties:
        existing = {g.name for g in scenario.definition.reachable if not absent(g)}
        expected = (name for name in scenario.expectation.reachable if name in existing)
        return chosen_goals(scenario.definition, absent, expected)
    named = goals_among(scenario.definition, overrides.properties)
    with _option(OPTION):
        return chosen_goals(scenario.definition, absent, named)


@contextmanager
def _option(text: str) -> Iterator[None]:
    """While inside, an InputError or ChoiceError becomes an InputError that begins with the option's text."""
    try:
        yield
    except (InputError, ChoiceError) as wrong:
        raise InputError(f"{text}: {wrong}") from None


def _value(protocol: type[Protocol], name: str, value: int) -> int:
    with _option(f"--set {name}={value}"):
        return parameter_value(protocol, name, value)


def _setting(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise InputError(f"--set {text}: write NAME=VALUE")
    try:
        return name, value == "true" if value in ("true", "false") else int(value)
    except ValueError:
        raise InputError(f"--set {text}: the value is a whole number, true or false, not {value!r}") from None


def _switch(text: str) -> tuple[str, bool]:
    name, equals, value = text.partition("=")
    if not (name and equals) or value not in ("on", "off"):
        raise InputError(f"--rule {text}: write NAME=on or NAME=off")
    return name, value == "on"


# The ways to name a scenario or a protocol.

Subject = str | PathLike[str] | type[Protocol] | Scenario | Request


class ScenarioSettings(TypedDict, total=False):
    """The settings that override a scenario or a protocol. Each means the same as the option of a command."""

    parameters: Mapping[str, int] | None
    rules: Mapping[str, bool] | None
    profile: str | None
    properties: Iterable[str]
    deadlock: bool | None
    symmetry: bool | None


def asked(
    subject: Subject, *, directory: str | PathLike[str] | None = None, **settings: Unpack[ScenarioSettings]
) -> Request:
    """The request for a scenario or a protocol, with overriding settings.

    ``subject`` can be a text: the path of a ``.toml`` scenario or of a ``.py`` file with a protocol, or the name of
    a scenario or of a protocol (``replication.controller``). A path is relative to ``directory``, if given. A Request
    is returned unchanged. Raises InputError for an unknown subject, name or value, and for a Request with settings.
    Raises TypeError for an unknown setting.
    """
    if unknown := settings.keys() - ScenarioSettings.__annotations__.keys():
        raise TypeError(f"there is no setting {', '.join(sorted(unknown))}")
    overrides = Overrides(
        parameters=dict(settings.get("parameters") or {}),
        rules=dict(settings.get("rules") or {}),
        profile=settings.get("profile"),
        properties=tuple(settings.get("properties", ())),
        symmetry=settings.get("symmetry"),
        deadlock=settings.get("deadlock"),
    )
    if isinstance(subject, Request):
        if overrides != Overrides():
            raise InputError(
                f"{subject.scenario.name}: a request has its settings; set them where you first name the scenario"
            )
        return subject
    if isinstance(subject, type):
        subject = scenario_files.bare(_definition(subject))
    if not isinstance(subject, Scenario):
        subject = _named(str(subject), Path(directory) if directory is not None else Path())
    return Request.of(subject, overrides)


def _named(text: str, directory: Path) -> Scenario:
    if text.endswith(".toml"):
        return scenario_files.read(directory / text, text)
    if text.endswith(".py"):
        return scenario_files.bare(catalogue.load_file(directory / text))
    if text in registry.NAMES:
        return scenario_files.bare(catalogue.load(text))
    return scenario_files.find(text)


def _definition(protocol: type[Protocol]) -> Definition:
    """The definition of a protocol's class. A built-in protocol has the properties in ``invariants``."""
    package = protocol.__module__.removeprefix("highwater.model.")
    for name in registry.NAMES if package != protocol.__module__ else ():
        if (found := catalogue.load(name)).protocol is protocol:
            return found
    name = protocol.name or protocol.__name__
    return Definition.of(name, protocol)
