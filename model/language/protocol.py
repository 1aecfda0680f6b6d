"""What a protocol is made of: parameters, rules as switches, profiles, actions and invariants.

A protocol is a subclass of Protocol. ``define`` sizes its types from the parameters and returns the type
of its state; ``initial`` gives the initial states as plain values; methods marked ``@action`` state the
steps, functions marked ``@invariant`` what must hold. ``highwater.model.language.model.Model`` runs all of them once
on symbolic values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

from highwater.model.language.docstrings import first_paragraph
from highwater.model.language.drawing import Drawing
from highwater.model.language.errors import LanguageError, full_place, place_of
from highwater.model.language.liveness import Liveness
from highwater.model.language.rulebook import check_source
from highwater.model.language.types import Struct


@dataclass(frozen=True)
class Parameter:
    """A whole number that a scenario can set: its default, the inclusive range, what it means."""

    default: int
    low: int
    high: int
    meaning: str


@dataclass(frozen=True)
class Rule:
    """A rule of the protocol as a switch: its number in the rulebook, or where else it comes from, and its sentence.

    ``place`` is where it is stated: the whole path, and the line.
    """

    source: str
    sentence: str
    place: str | None = field(default_factory=full_place, compare=False, repr=False)


@dataclass(frozen=True)
class Profile:
    """A set of rules that are on together, such as one version of Kafka."""

    meaning: str
    rules: frozenset[str]

    @classmethod
    def of(cls, meaning: str, *rules: str) -> Profile:
        """A profile from the names of its rules."""
        return cls(meaning, frozenset(rules))


@dataclass(frozen=True)
class Action:
    """A step of the protocol.

    ``domains`` names, for each parameter, the attribute of the protocol that enumerates it: a type, or an
    iterable of values. ``rule`` is the switch without which the action does not exist, ``source`` the numbers of
    its rules, ``says`` a sentence with the parameters in braces, for traces.
    """

    name: str
    function: Callable[..., None]
    domains: Mapping[str, str]
    source: str = ""
    rule: str | None = None
    says: str = ""

    @property
    def meaning(self) -> str:
        """The first paragraph of the docstring."""
        return first_paragraph(self.function)


@dataclass(frozen=True)
class Invariant:
    """A property of every state: a function of (protocol, state) to a symbolic bool."""

    name: str
    function: Callable[[Any, Any], Any]
    source: str
    rule: str | None = None

    @property
    def meaning(self) -> str:
        """The docstring's first paragraph: what must hold and why it matters."""
        return first_paragraph(self.function)


def action(
    source: str = "", /, *, says: str = "", rule: str | None = None, **domains: str
) -> Callable[[Callable[..., None]], Action]:
    """Mark a method as an action; the arguments are those of Action."""

    def mark(function: Callable[..., None]) -> Action:
        return Action(function.__name__, function, domains, source, rule, says)

    return mark


def invariant(source: str, /, *, rule: str | None = None) -> Callable[[Callable[[Any, Any], Any]], Invariant]:
    """Mark a function of (protocol, state) as an invariant; it exists where ``rule`` is on (None: always)."""

    def mark(function: Callable[[Any, Any], Any]) -> Invariant:
        return Invariant(function.__name__, function, source, rule)

    return mark


class Protocol:
    """Base of all protocols.

    After construction ``p`` holds the parameters as attributes and ``on`` tells which rules are switched on.
    """

    name: ClassVar[str] = ""
    parameters: ClassVar[Mapping[str, Parameter]] = {}
    rules: ClassVar[Mapping[str, Rule]] = {}
    profiles: ClassVar[Mapping[str, Profile]] = {}
    invariants: ClassVar[Iterable[Invariant]] = ()
    liveness: ClassVar[Iterable[Liveness]] = ()
    symmetric: ClassVar[tuple[str, ...]] = ()
    """Names of those indices whose values the protocol treats alike (what symmetry reduction may permute)."""
    modules: ClassVar[tuple[ModuleType, ...]] = ()
    """Modules of actions, for a protocol of several files: functions of (protocol, state, …) marked ``@action``."""
    drawing: ClassVar[Drawing | None] = None
    """How runs are drawn, where the protocol says."""
    rulebook: ClassVar[Mapping[str, object] | None] = None
    """What is known by the numbers that sources name (``highwater.model.language.rulebook.Rulebook``); None: any
    source will do. Rules, actions and properties that name another number are refused where the class is defined."""

    def __init_subclass__(cls, **others: Any) -> None:
        super().__init_subclass__(**others)
        for name, rule in cls.rules.items():
            check_source(cls.rulebook, rule.source, f"rule {name} of {cls.__name__}", rule.place)
        for action in cls.actions():
            check_source(
                cls.rulebook,
                action.source,
                f"action {action.name} of {cls.__name__}",
                place_of(action.function),
            )
        cls.check_sources((*cls.invariants, *cls.liveness))

    @classmethod
    def check_sources(cls, properties: Iterable[Invariant | Liveness]) -> None:
        """LanguageError, with the place, where one of these names a number that is not in the class's rulebook."""
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
                raise LanguageError(f"{self.name} has no parameter {key!r}; it has {_list(self.parameters)}")
            if not isinstance(value, int) or isinstance(value, bool):
                raise LanguageError(f"parameter {key} of {self.name} is a whole number, not {value!r}")
            if not known.low <= value <= known.high:
                raise LanguageError(
                    f"parameter {key} of {self.name} is {known.low} to {known.high}, not {value}"
                )
        self.p = SimpleNamespace(
            **{key: chosen.get(key, known.default) for key, known in self.parameters.items()}
        )
        on = frozenset(self.rules if rules is None else rules)
        for rule in on - set(self.rules):
            raise LanguageError(f"{self.name} has no rule {rule!r}; it has {_list(self.rules)}")
        self._on = on
        self.state = self.define()

    def define(self) -> Struct:
        """Size the types from ``self.p`` (kept as attributes) and return the type of the state."""
        raise NotImplementedError

    def initial(self) -> Iterable[Mapping[str, Any]]:
        """The initial states, as plain values."""
        raise NotImplementedError

    def on(self, rule: str) -> bool:
        """Whether a rule is switched on. It is known while tracing, so a plain ``if`` can ask."""
        if rule not in self.rules:
            raise LanguageError(f"{self.name} has no rule {rule!r}; it has {_list(self.rules)}")
        return rule in self._on

    @property
    def rules_on(self) -> frozenset[str]:
        """The rules that are switched on."""
        return self._on

    @classmethod
    def actions(cls) -> list[Action]:
        """All actions in the order of definition: those of ``modules``, then of the class, base classes first.

        LanguageError where two modules define an action of one name.
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
            for value in vars(base).values():
                if isinstance(value, Action):
                    found[value.name] = value
        return list(found.values())


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


__all__ = ["Action", "Invariant", "Parameter", "Profile", "Protocol", "Rule", "action", "invariant"]
