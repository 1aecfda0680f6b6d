"""What can be chosen of a protocol by name: a profile, rules over it, parameters.

Scenarios, the command line and traces choose, and each says in its own way where a choice is written. What a choice
means, and whether there is such a thing, is said here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from highwater.model.language.errors import LanguageError
from highwater.model.names import unknown

if TYPE_CHECKING:
    from highwater.model.language.protocol import Parameter, Profile, Protocol, Rule


class ChoiceError(LanguageError):
    """A name that a protocol does not have, or a value that a parameter does not take. The message is one line."""


def profile_of(protocol: type[Protocol], name: str) -> Profile:
    """The profile of this name; ChoiceError where there is none."""
    if name not in protocol.profiles:
        raise ChoiceError(unknown(f"profile of {protocol.name}", name, protocol.profiles))
    return protocol.profiles[name]


def rule_of(protocol: type[Protocol], name: str) -> Rule:
    """The rule of this name; ChoiceError where there is none."""
    if name not in protocol.rules:
        raise ChoiceError(unknown(f"rule of {protocol.name}", name, protocol.rules))
    return protocol.rules[name]


def parameter_of(protocol: type[Protocol], name: str, value: object) -> Parameter:
    """The parameter of this name, which this value is in the range of; else ChoiceError."""
    if name not in protocol.parameters:
        raise ChoiceError(unknown(f"parameter of {protocol.name}", name, protocol.parameters))
    found = protocol.parameters[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise ChoiceError(f"{name} is a whole number, not {value!r}")
    if not found.low <= value <= found.high:
        raise ChoiceError(f"{name} is {found.low} to {found.high}, not {value}")
    return found


def rules_on(protocol: type[Protocol], profile: str | None, *switches: Mapping[str, bool]) -> frozenset[str]:
    """The rules that are on: those of the profile (without one all), then each of the switches over it.

    Raises ChoiceError for a profile or a rule that does not exist.
    """
    on = set(protocol.rules if profile is None else profile_of(protocol, profile).rules)
    for switched in switches:
        for name, is_on in switched.items():
            rule_of(protocol, name)
            (on.add if is_on else on.discard)(name)
    return frozenset(on)
