"""What a protocol offers a proof by induction beside what must hold: helper invariants, and properties of steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

from highwater.checker.catalogue import Definition
from highwater.checker.request import Request
from highwater.invariants.catalogue import stated
from highwater.model import registry
from highwater.model.language.protocol import Invariant
from highwater.model.language.step_properties import StepProperty


@dataclass(frozen=True)
class Helpers:
    """The helper invariants and the helping properties of steps of one protocol; both can be empty."""

    invariants: tuple[Invariant, ...] = ()
    steps: tuple[StepProperty, ...] = ()


def helpers(definition: Definition) -> Helpers:
    """Those of a protocol: of one that comes with the checker what is stated beside it, else what its class lists."""
    if definition.file is None and definition.name in registry.NAMES:
        known = stated(definition.name)
        return Helpers(known.helpers, known.helper_steps)
    listed = tuple(definition.protocol.helpers)
    return Helpers(
        tuple(p for p in listed if isinstance(p, Invariant)),
        tuple(p for p in listed if isinstance(p, StepProperty)),
    )


def with_helpers(request: Request) -> Request:
    """The request with all helpers that exist under its rules, behind its own properties."""
    own = helpers(request.scenario.definition)
    return replace(
        request,
        invariants=(*request.invariants, *(p for p in own.invariants if _exists(p, request))),
        step_properties=(*request.step_properties, *(p for p in own.steps if _exists(p, request))),
    )


def _exists(stated: Invariant | StepProperty, request: Request) -> bool:
    return stated.rule is None or request.rules[stated.rule]
