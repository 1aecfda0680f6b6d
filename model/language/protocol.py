"""The parts of a protocol: parameters, rules as switches, profiles, actions and invariants.

``define`` returns the type of a protocol's state, ``initial`` the initial states. ``@action`` marks steps.
"""

from __future__ import annotations

import inspect
import re
import string
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, ClassVar, overload

from highwater.errors import unknown
from highwater.model.language.declarations import (
    Profile,
    check_names,
    check_parameters,
    refuse_hidden,
    refuse_identity,
    takes,
)
from highwater.model.language.drawing import Drawing
from highwater.model.language.errors import (
    LanguageError,
    NoSuchAttribute,
    fail,
    first_paragraph,
    full_place,
    has_parentheses,
    meant,
    place,
    place_of,
)
from highwater.model.language.liveness import Fairness, Liveness, Tag
from highwater.model.language.rulebook import check_source
from highwater.model.language.state import State
from highwater.model.language.step_properties import SafetyMark, SafetyProperty, StepProperty
from highwater.model.language.tracing import require
from highwater.model.language.types import Int, Struct


@dataclass(frozen=True)
class Parameter:
    """A whole number or a switch that a scenario can set, with its default, inclusive range and meaning."""

    default: int
    low: int
    high: int
    meaning: str
    is_switch: bool = False
    """True if the values are true and false (``Protocol.p`` has bools). Files and options can also use 1 and 0."""

    @classmethod
    def switch(cls, meaning: str, *, default: bool = False) -> Parameter:
        """A parameter that is true or false."""
        return cls(int(default), 0, 1, meaning, is_switch=True)

    def __post_init__(self) -> None:
        if not self.low <= self.default <= self.high:
            raise fail(f"a parameter's default {self.default} is not in its range, {self.low} to {self.high}")

    def mistake(self, value: object) -> str:
        """The reason why a value is invalid, as the end of a sentence; "" if the value is valid."""
        if self.is_switch:
            return "" if isinstance(value, int) and value in (0, 1) else f"is true or false, not {value!r}"
        if not isinstance(value, int) or isinstance(value, bool):
            return f"is a whole number, not {value!r}"
        return "" if self.low <= value <= self.high else f"is {self.low} to {self.high}, not {value}"


@dataclass(frozen=True)
class Rule:
    """A rule of the protocol, which can be switched on and off.

    ``source`` is the rule's number in the rulebook, or another source. ``place`` is ``file:line`` with the full path.
    """

    source: str
    sentence: str
    place: str | None = field(default_factory=full_place, compare=False, repr=False)


@dataclass(frozen=True)
class Action:
    """An action of the protocol: a function of (protocol, state, parameters) that defines a kind of step.

    * ``domains``: for each parameter, the protocol's attribute that lists its values (a type or an iterable).
    * ``source``: the numbers of the action's rules.
    * ``rule``: the action exists only if this rule is on; None: always.
    * ``says``: a sentence for traces, with parameters in braces.
    * ``tags``: names by which fairness assumptions refer to several actions.
    """

    name: str
    function: Callable[..., None]
    domains: Mapping[str, str]
    source: str = ""
    rule: str | None = None
    says: str = ""
    tags: tuple[str, ...] = ()

    @property
    def meaning(self) -> str:
        """The first paragraph of the action's docstring."""
        return first_paragraph(self.function)

    @overload
    def __get__(self, protocol: None, kind: type[Protocol]) -> Action: ...
    @overload
    def __get__(self, protocol: Protocol, kind: type[Protocol]) -> Callable[..., None]: ...
    def __get__(self, protocol: Protocol | None, kind: type[Protocol]) -> Action | Callable[..., None]:
        """On a class, the action; on an instance, the action's bound function, for ``super().name(s, …)``."""
        return self if protocol is None else partial(self.function, protocol)


class Invariant(SafetyProperty):
    """A property of every state, or a reachability goal.

    Its function of (protocol, state) returns a symbolic bool.
    """


def action(
    source: str = "",
    /,
    *,
    says: str = "",
    rule: str | None = None,
    tags: str | tuple[str, ...] = (),
    **domains: str,
) -> Callable[[Callable[..., None]], Action]:
    """Mark a method, or a function in one of the ``modules``, as an action. ``Action`` explains the arguments.

    Raises LanguageError if domains, parameters and ``says`` do not fit, or the class has an action of this name.
    """
    has_parentheses("action", source)
    of = tuple(tags.split()) if isinstance(tags, str) else tuple(tags)

    def mark(function: Callable[..., None]) -> Action:
        _check_action(function, says, domains)
        if isinstance(sys._getframe(1).f_locals.get(function.__name__), Action):
            raise fail(f"there is an action {function.__name__!r} above: the second would replace it")
        return Action(function.__name__, function, domains, source, rule, says, of)

    return mark


def _check_action(function: Callable[..., None], says: str, domains: Mapping[str, str]) -> None:
    name, where = getattr(function, "__name__", None), place_of(function)
    if name is None or where is None:
        raise fail(f"@action marks a method, not {function!r}; without arguments write @action()")
    refuse_identity(function)
    if inspect.unwrap(function).__code__.co_argcount < 2:
        raise LanguageError(f"action {name} needs the parameters (self, s) before its own", where)
    check_parameters(f"action {name}", function, domains)
    try:
        parsed = string.Formatter().parse(says)
        fields = [re.split(r"[.\[]", field)[0] for _, field, _, _ in parsed if field is not None]
    except ValueError as wrong:
        raise LanguageError(f"the sentence of action {name}: {wrong}", where) from None
    for named in fields:
        if named not in domains:
            known = ", ".join(domains) or "none"
            raise LanguageError(
                f"the sentence of action {name} names {{{named}}}; its parameters are {known}", where
            )


invariant = SafetyMark(Invariant, "an invariant", "state")
"""Mark a function of (protocol, state) as an invariant."""


Goal = Invariant | StepProperty
"""A reachability goal for states (Invariant) or for steps (StepProperty)."""


def reachable(
    source: str, /, *, rule: str | None = None, needs: str | None = None, name: str | None = None
) -> Callable[[Callable[..., Any]], Goal]:
    """Mark a function of (protocol, state), or of (protocol, before, after), as a reachability goal.

    ``SafetyProperty`` explains ``rule`` and ``needs``. ``name`` replaces the function's name.
    """
    has_parentheses("reachable", source)

    def mark(function: Callable[..., Any]) -> Goal:
        refuse_identity(function)
        kinds: dict[int, type[Goal]] = {2: Invariant, 3: StepProperty}
        kind = kinds.get(len(inspect.signature(function).parameters))
        called = name or function.__name__
        if kind is None:
            raise LanguageError(
                f"the goal {called} is a function of (protocol, state), or of (protocol, before, after)",
                place_of(function),
            )
        return kind(called, function, source, rule, needs, goal=True)

    return mark


Conditional = Action | SafetyProperty | Liveness
"""An action or a property that exists only under some rules and parameters."""


def why_absent(on: Callable[[str], bool], parameters: Mapping[str, int], stated: Conditional) -> str:
    """The reason why an action or a property does not exist; "" if it does."""
    if stated.rule is not None and not on(stated.rule):
        return f"the rule {stated.rule} is off"
    for name, is_set in getattr(stated, "sizes", {}).items():
        if bool(parameters[name]) != is_set:
            return f"the parameter {name} is {'0' if is_set else 'not 0'}"
    return ""


_MAPPINGS: dict[str, type] = {"parameters": Parameter, "rules": Rule, "profiles": Profile}
"""The attributes of a protocol class that are mappings, with the type of the mapped values."""
_DECLARED: dict[str, type | tuple[type, ...]] = {
    **_MAPPINGS,
    "invariants": Invariant,
    "step_properties": StepProperty,
    "liveness": Liveness,
    "reachable": (Invariant, StepProperty),
    "helpers": (Invariant, StepProperty),
    "symmetric": str,
    "modules": ModuleType,
    "drawing": Drawing,
    **dict.fromkeys(("define", "initial", "initially"), FunctionType),
}
"""The attributes of a protocol class, with the type of the value or of each member."""
_MARKS = {
    "invariants": "invariant",
    "step_properties": "step_property",
    "liveness": "liveness",
    "reachable": "reachable",
    "helpers": "invariant or @step_property",
}
"""The attributes of a protocol class that are tuples of properties, with the decorator of the members."""


def _refuse_misspelled(protocol: type[Protocol]) -> None:
    """Raises LanguageError for a name and a value like those of a missing declaration: ``livenes = (…)``."""
    for name, value in vars(protocol).items():
        if name.startswith("_") or hasattr(Protocol, name):
            continue
        if not (candidates := [n for n in _DECLARED if _can_be(n, value)]):
            continue
        import difflib

        nearest = difflib.get_close_matches(name, candidates, n=1, cutoff=0.7)
        if nearest and getattr(protocol, nearest[0]) is getattr(Protocol, nearest[0]):
            raise LanguageError(
                f"nothing reads the attribute {name!r} of {protocol.__name__}; did you mean {nearest[0]!r}?",
                place_of(value) if isinstance(value, FunctionType) else place_of(protocol),
            )


def _can_be(declaration: str, value: object) -> bool:
    """True if the value has the type that this declaration requires."""
    kind = _DECLARED[declaration]
    if kind in (FunctionType, Drawing):
        return isinstance(value, kind)
    if isinstance(value, Mapping):
        return declaration in _MAPPINGS and all(isinstance(v, kind) for v in value.values())
    if isinstance(value, (tuple, list)):
        return declaration not in _MAPPINGS and all(isinstance(v, kind) for v in value)
    return False


class Parameters(SimpleNamespace):
    """The parameter values of a protocol, as attributes."""

    def __getattr__(self, name: str) -> Any:
        """Raises NoSuchAttribute: there is no parameter of this name."""
        if name.startswith("__"):
            raise AttributeError(name)
        problem = f"there is no parameter {name!r}; there are {_list(vars(self))}{meant(name, vars(self))}"
        raise NoSuchAttribute(problem, place())


class Protocol:
    """The base class of all protocols. ``p`` has the parameter values as attributes."""

    name: ClassVar[str] = ""
    parameters: ClassVar[Mapping[str, Parameter]] = {}
    rules: ClassVar[Mapping[str, Rule]] = {}
    profiles: ClassVar[Mapping[str, Profile]] = {}
    invariants: ClassVar[Iterable[Invariant]] = ()
    step_properties: ClassVar[Iterable[StepProperty]] = ()
    liveness: ClassVar[Iterable[Liveness]] = ()
    reachable: ClassVar[Iterable[Invariant | StepProperty]] = ()
    """Reachability goals. A scenario names the goals that some state or step must satisfy."""
    helpers: ClassVar[Iterable[Invariant | StepProperty]] = ()
    """Auxiliary properties that only proofs by induction use."""
    symmetric: ClassVar[tuple[str, ...]] = ()
    """The names of the symmetric indices: symmetry reduction may permute their values."""
    any_size: ClassVar[tuple[str, ...]] = ()
    """The parameter that can be any number in a proof (an index's size), and parameters to unbound with it."""
    any_initial: ClassVar[Any] = None
    """For ``any_size``: a method of (protocol, state) with the initial states as a condition."""
    modules: ClassVar[tuple[ModuleType, ...]] = ()
    """Modules of actions, for a protocol of several files: functions of (protocol, state, …) marked ``@action``."""
    _of_modules: ClassVar[Mapping[str, Action]] = {}
    """The actions of ``modules`` that are set as attributes of the class, so that ``super().name(s, …)`` finds them."""
    drawing: ClassVar[Drawing | None] = None
    """How pages draw the protocol's runs; None: without lanes."""
    procedures: ClassVar[Mapping[str, Any]] = {}
    """An operator's procedures (``highwater.model.language.procedures.Procedure``), by the name that scenarios use."""
    rulebook: ClassVar[Mapping[str, object] | None] = None
    """The rules by number (``highwater.model.language.rulebook.Rulebook``). Sources of rules, actions and properties
    can name only these numbers. None: sources can be any text."""

    @classmethod
    def check_sources(cls, properties: Iterable[Invariant | StepProperty | Liveness]) -> None:
        """Raises LanguageError, with the place, if a property's source names a number that the rulebook lacks."""
        for stated in properties:
            what = f"property {stated.name} of {cls.__name__}"
            check_source(cls.rulebook, stated.source, what, place_of(stated.function))

    def __init__(
        self, parameters: Mapping[str, int] | None = None, rules: Iterable[str] | None = None
    ) -> None:
        chosen = dict(parameters or {})
        for key, value in chosen.items():
            known = self.parameters.get(key)
            if known is None:
                raise LanguageError(_no_parameter(self, key))
            if mistake := known.mistake(value):
                raise LanguageError(f"parameter {key} of {self.name} {mistake}")
        values = {key: (known, chosen.get(key, known.default)) for key, known in self.parameters.items()}
        self.p = Parameters(**{k: bool(v) if known.is_switch else v for k, (known, v) in values.items()})
        on = frozenset(self.rules if rules is None else rules)
        for rule in on - set(self.rules):
            raise LanguageError(no_rule(self, rule))
        self._on = on
        self.consulted: set[str] = set()
        """The rules that code has looked up, for example by ``on``, since construction."""
        self.state = self._defined()

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Check the declarations of the new subclass (``check``) and add the actions of its ``modules``."""
        super().__init_subclass__(**arguments)
        cls.check()
        if "modules" in vars(cls):
            cls._of_modules = {a.name: a for a in cls.actions() if not hasattr(cls, a.name)}
            for name, value in cls._of_modules.items():
                setattr(cls, name, value)

    def __getattr__(self, name: str) -> Any:
        """Raises NoSuchAttribute: ``define`` sets no attribute of this name."""
        if name.startswith("_"):
            raise AttributeError(name)
        problem = f"{type(self).__name__} has no attribute {name!r}; the state's fields are s.…"
        raise NoSuchAttribute(f"{problem}{meant(name, dir(self), 0.75)}", place())

    @classmethod
    def check(cls) -> None:
        """Raises LanguageError if a declaration of the class is invalid, misspelled or without effect."""
        for attribute, kinds in (("modules", (tuple, list)), ("rulebook", (Mapping, type(None)))):
            if not isinstance(given := getattr(cls, attribute), kinds):
                raise fail(f"{attribute} of {cls.__name__} cannot be {given!r}")
        takes(cls.define, "define()", "self")
        takes(cls.initial, "initial()", "self")
        takes(cls.initially, "initially()", "self", "s")
        if "__init__" in vars(cls):
            wrong = "a protocol has no __init__: write types in define(), and initial values in initial()"
            raise LanguageError(wrong, place_of(cls.__init__))
        for attribute, kind in _MAPPINGS.items():
            given = getattr(cls, attribute)
            if not isinstance(given, Mapping) or not all(isinstance(i, kind) for i in given.values()):
                raise fail(
                    f"{attribute} of {cls.__name__} gives names to a {kind.__name__} each, not {given!r}: "
                    f'write {{"name": {kind.__name__}(…)}}'
                )
        for attribute, mark in _MARKS.items():
            given = getattr(cls, attribute)
            each = given if isinstance(given, (tuple, list)) else (given,)
            for found in each:
                if each is not given or not isinstance(found, _DECLARED[attribute]):
                    raise fail(
                        f"{attribute} of {cls.__name__} is a tuple of what @{mark} marks, not "
                        f"{getattr(found, 'name', found)!r}: write the mark above it, and {attribute} = (…,)"
                    )
        for name, rule in cls.rules.items():
            check_source(cls.rulebook, rule.source, f"rule {name} of {cls.__name__}", rule.place)
        for action in cls.actions():
            what = f"action {action.name} of {cls.__name__}"
            check_source(cls.rulebook, action.source, what, place_of(action.function))
        goals = tuple(cls.reachable)
        listed = (*cls.invariants, *cls.step_properties, *cls.liveness, *cls.helpers, *goals)
        cls.check_sources(listed)
        for stated in listed:
            if getattr(stated, "goal", False) != (stated in goals):
                raise LanguageError(
                    f"{stated.name} of {cls.__name__}: `reachable` lists what @reachable marks, and nothing else does",
                    place_of(stated.function),
                )
        check_names(cls.__name__, listed)
        refuse_hidden((cls, *cls.modules), (Action, SafetyProperty, Liveness))
        _refuse_misspelled(cls)
        for name, value in vars(cls).items():
            if isinstance(value, (Invariant, StepProperty, Liveness)) and value not in listed:
                where = {Invariant: "invariants", Liveness: "liveness"}.get(type(value), "step_properties")
                where = "reachable goals" if getattr(value, "goal", False) else where
                raise LanguageError(
                    f"{name} is not among the {where} (or helpers) of {cls.__name__}, so it would not be checked",
                    place_of(getattr(value, "mapping", value.function)),
                )
            if isinstance(value, Action) and hasattr(Protocol, name):
                raise LanguageError(
                    f"an action cannot be called {name!r}: every protocol has an attribute of this name",
                    place_of(value.function),
                )

    def _defined(self) -> Struct:
        """The state type that ``define`` returns. Raises LanguageError if it is invalid, or a profile is."""
        own = self.p, self._on, self.consulted
        where = place_of(self.define)
        for name, profile in self.profiles.items():
            if profile.meaning in self.rules:
                raise LanguageError(
                    f'profile {name}: a text comes first: write Profile.of("…", "{profile.meaning}")', where
                )
            for rule in sorted(profile.rules - set(self.rules)):
                raise LanguageError(f"profile {name}: {no_rule(self, rule)}", where)
        state: object = self.define()
        if not isinstance(state, Struct):
            raise LanguageError(f"define() returned {state!r}; it returns the Struct of the state", where)
        taken = [name for name in vars(self) if name == "state" or hasattr(Protocol, name)]
        names = zip(("p", "_on", "consulted"), own, strict=True)
        taken += [name for name, value in names if getattr(self, name) is not value]
        if taken:
            raise LanguageError(
                f"define() sets self.{taken[0]}, which every protocol has already; write another name", where
            )
        for name in state.fields:
            if hasattr(State, name) or name in State.__annotations__:
                raise LanguageError(
                    f"the state cannot have a field {name!r}: every state has an attribute of this name",
                    state.declared,
                )
        return state

    def define(self) -> Struct:
        """Set the protocol's types as attributes, sized by ``self.p``, and return the type of the state."""
        missing = f"{type(self).__name__} has no define(), which returns the type of the state"
        raise LanguageError(missing, place_of(type(self)))

    def initial(self) -> Iterable[Mapping[str, Any]]:
        """The initial states, as dicts of field name to plain value. A missing field is zero; ``free`` is any value.

        By default there is one initial state, in which all fields are zero.
        """
        return [{}]

    def initially(self, s: State) -> Any:
        """A condition that selects initial states among the states of ``initial``; by default True."""
        return True

    def on(self, rule: str) -> bool:
        """True if a rule is on. The answer is known while tracing, so a plain ``if`` can use it."""
        return self.ever_on(rule)

    def ever_on(self, rule: str) -> bool:
        """True if a rule is on in some state (``on``, if no rule depends on the state). ``consulted`` gets the rule."""
        if rule not in self.rules:
            raise fail(no_rule(self, rule))
        self.consulted.add(rule)
        return rule in self._on

    def has(self, stated: Conditional) -> bool:
        """True if an action or a property exists under the protocol's rules and parameters."""
        return not why_absent(self.ever_on, vars(self.p), stated)

    @property
    def parameter_values(self) -> dict[str, int]:
        """The value of each parameter as a number; a switch is 0 or 1."""
        return {name: int(getattr(self.p, name)) for name in self.parameters}

    @property
    def rules_on(self) -> frozenset[str]:
        """The names of the rules that are switched on. Reading it adds all rules to ``consulted``."""
        self.consulted.update(self.rules)
        return self._on

    @classmethod
    def actions(cls) -> list[Action]:
        """All actions of ``modules``, then all actions of the base classes and of the class, in order of definition.

        An action of a class replaces an earlier action with the same name. Raises LanguageError if two modules define
        an action with the same name.
        """
        found: dict[str, Action] = {}
        for module in cls.modules:
            if not isinstance(module, ModuleType):
                raise LanguageError(f"{cls.name}: `modules` names Python modules, not {module!r}")
            for value in vars(module).values():
                if isinstance(value, Action) and value.function.__module__ == module.__name__:
                    if value.name in found:
                        raise LanguageError(f"{cls.name}: two of its modules define the action {value.name}")
                    found[value.name] = value
        for base in reversed(cls.__mro__):
            of_modules = vars(base).get("_of_modules", {})
            for value in vars(base).values():
                if isinstance(value, Action) and of_modules.get(value.name) is not value:
                    found[value.name] = value
        return list(found.values())


def check_conditions(protocol: Protocol | type[Protocol], stated: Conditional) -> None:
    """Raises LanguageError, with the place, if the rule or parameter that ``stated`` depends on is unknown."""
    if stated.rule is not None and stated.rule not in protocol.rules:
        raise LanguageError(no_rule(protocol, stated.rule), place_of(stated.function))
    for name in getattr(stated, "sizes", ()):
        if name not in protocol.parameters:
            raise LanguageError(_no_parameter(protocol, name), place_of(stated.function))


def check_actions(
    protocol: Protocol | type[Protocol], name: str, where: str | None, fair: Iterable[Fairness]
) -> None:
    """Raises LanguageError at ``where`` if an assumption in ``fair`` names an unknown action or tag.

    ``name`` is the liveness property with these assumptions.
    """
    actions = protocol.actions()
    known, tags = {a.name for a in actions}, {tag for a in actions for tag in a.tags}
    for named in (named for fairness in fair for named in fairness.actions):
        if isinstance(named, Tag):
            if named not in tags:
                has = f"it has {', '.join(sorted(tags))}{meant(named, tags)}" if tags else "none has a tag"
                raise LanguageError(
                    f"{name}: no action of {protocol.name} has the tag {str(named)!r}; {has}", where
                )
        elif named not in known:
            raise LanguageError(
                f"{name} calls {named!r} fair, which is no action of {protocol.name}; "
                f"it has {', '.join(sorted(known)) or 'none'}{meant(named, known)}",
                where,
            )


def no_rule(protocol: Protocol | type[Protocol], name: str) -> str:
    """The error message for a rule name that the protocol does not have."""
    known = _list(protocol.rules)
    return f"{protocol.name} has no rule {name!r}; it has {known}{meant(name, protocol.rules)}"


def _no_parameter(protocol: Protocol | type[Protocol], name: str) -> str:
    known = _list(protocol.parameters)
    return f"{protocol.name} has no parameter {name!r}; it has {known}{meant(name, protocol.parameters)}"


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


# Look up profiles, rules and parameters by name, for scenarios, the command line and traces.


class ChoiceError(LanguageError):
    """An unknown name, or a value outside a parameter's range. The error message is one line."""


def profile_of(protocol: type[Protocol], name: str) -> Profile:
    """The profile of this name. Raises ChoiceError if the protocol has none."""
    if name not in protocol.profiles:
        raise ChoiceError(unknown(f"profile of {protocol.name}", name, protocol.profiles))
    return protocol.profiles[name]


def rule_of(protocol: type[Protocol], name: str) -> Rule:
    """The rule of this name. Raises ChoiceError if the protocol has none."""
    if name not in protocol.rules:
        raise ChoiceError(unknown(f"rule of {protocol.name}", name, protocol.rules))
    return protocol.rules[name]


def parameter_value(protocol: type[Protocol], name: str, value: object) -> int:
    """The parameter value as a number: 0 or 1 for a switch. Raises ChoiceError for an invalid name or value."""
    if name not in protocol.parameters:
        raise ChoiceError(unknown(f"parameter of {protocol.name}", name, protocol.parameters))
    if mistake := protocol.parameters[name].mistake(value):
        raise ChoiceError(f"{name} {mistake}")
    assert isinstance(value, int)
    return int(value)


def rules_on(protocol: type[Protocol], profile: str | None, *switches: Mapping[str, bool]) -> frozenset[str]:
    """The names of the rules that are on: the rules of the profile (None: all rules), changed by the switches.

    If several ``switches`` set a rule, the last one counts. Raises ChoiceError if the profile or a rule does not exist.
    """
    on = set(protocol.rules if profile is None else profile_of(protocol, profile).rules)
    for switched in switches:
        for name, is_on in switched.items():
            rule_of(protocol, name)
            (on.add if is_on else on.discard)(name)
    return frozenset(on)


# Budgets. The state's field ``budgets`` has the remaining numbers.


class Budgets:
    """Budgets, with their meanings: each limits the number of times that some steps, such as faults, occur in a run.

    ``most`` is the greatest value that a scenario can give a budget.
    """

    def __init__(self, meanings: Mapping[str, str], *, most: int) -> None:
        self.meanings = dict(meanings)
        self.most = most

    def __iter__(self) -> Iterator[str]:
        return iter(self.meanings)

    def parameter(self, name: str, *, default: int = 0, low: int = 0) -> Parameter:
        """The parameter by which a scenario sets the budget of this name."""
        return Parameter(default, low, self.most, f"budget: {self.meanings[name]}")

    @property
    def parameters(self) -> dict[str, Parameter]:
        """For each budget, the parameter by which a scenario sets it."""
        return {name: self.parameter(name) for name in self}

    def type(self, p: SimpleNamespace) -> Struct:
        """The type of the state's field ``budgets``. ``p`` has the parameter values of the protocol."""
        granted = self.granted(p).items()
        return Struct("Budgets", **{n: (Int(0, count), f"left: {self.meanings[n]}") for n, count in granted})

    def granted(self, p: SimpleNamespace) -> dict[str, int]:
        """Each budget as the scenario sets it: the initial value of the state's field ``budgets``."""
        return {name: getattr(p, name) for name in self}


def spend(s: State, budget: str) -> None:
    """Spend one unit of a budget in this step; a guard refuses the step if the budget is used up."""
    left = getattr(s.budgets, budget)
    require(f"the scenario grants {budget}", left > 0)
    setattr(s.next.budgets, budget, left - 1)
