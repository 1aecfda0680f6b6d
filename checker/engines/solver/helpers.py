"""What a protocol offers a proof by induction beside what must hold: helper invariants, and properties of steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

from highwater.checker.asking.catalogue import Definition
from highwater.checker.asking.request import Request
from highwater.model.language.protocol import Invariant
from highwater.model.language.step_properties import StepProperty


@dataclass(frozen=True)
class Helpers:
    """The helper invariants and the helping properties of steps of one protocol; both can be empty."""

    invariants: tuple[Invariant, ...] = ()
    steps: tuple[StepProperty, ...] = ()


def helpers(definition: Definition) -> Helpers:
    """Those of a protocol: of one that comes with the checker what is stated beside it, else what its class lists."""
    listed = definition.helpers
    return Helpers(
        tuple(p for p in listed if isinstance(p, Invariant)),
        tuple(p for p in listed if isinstance(p, StepProperty)),
    )


def with_helpers(request: Request) -> Request:
    """The request with all helpers that exist under its rules, behind its own properties."""
    own = helpers(request.scenario.definition)
    return replace(
        request,
        invariants=(*request.invariants, *(p for p in own.invariants if _is_missing(p, request))),
        step_properties=(*request.step_properties, *(p for p in own.steps if _is_missing(p, request))),
        goals=(),
    )


def _is_missing(stated: Invariant | StepProperty, request: Request) -> bool:
    return not request.why_absent(stated) and stated not in (*request.invariants, *request.step_properties)
