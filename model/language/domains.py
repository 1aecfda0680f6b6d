"""What a parameter ranges over: of an action, and of a property that is asked for each value."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from highwater.model.language import values
from highwater.model.language.errors import LanguageError, place_of
from highwater.model.language.types import Type

if TYPE_CHECKING:
    from highwater.model.language.protocol import Protocol


class HasDomains(typing.Protocol):
    """An action or a property: ``domains`` names the attribute of the protocol that enumerates each parameter."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def function(self) -> Callable[..., Any]:
        """What states it."""

    @property
    def domains(self) -> Mapping[str, str]:
        """Parameter to attribute of the protocol."""


def parameter_values(protocol: Protocol, stated: HasDomains, parameter: str) -> list[tuple[Any, Any]]:
    """The values of a parameter of an action or a property, each as a symbolic value and as a plain one.

    LanguageError where ``define`` sets nothing that it ranges over.
    """
    attribute, where = stated.domains[parameter], place_of(stated.function)
    domain = getattr(protocol, attribute, None)
    if domain is None:
        raise LanguageError(
            f"{stated.name}: parameter {parameter!r} ranges over {attribute!r}, which define() does not set",
            where,
        )
    try:
        found = [_parameter(v) for v in (domain.constants() if isinstance(domain, Type) else domain)]
    except LanguageError as wrong:
        raise LanguageError(f"{stated.name}: parameter {parameter!r}: {wrong.message}", where) from None
    except TypeError:
        raise LanguageError(
            f"{stated.name}: parameter {parameter!r} ranges over {attribute!r}, which is neither a type nor a list",
            where,
        ) from None
    return found


def _parameter(value: Any) -> tuple[Any, Any]:
    """A parameter's symbolic value and its plain one."""
    if isinstance(value, values.Value):
        type_ = value.type
        assert type_ is not None
        return value, type_.decode([n.value for n in value.nodes])
    return value, value
