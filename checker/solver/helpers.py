"""What a protocol offers a proof by induction beside its invariants: helper invariants, and properties of steps."""

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
    """The helper invariants and the properties of steps of one protocol; both can be empty."""

    invariants: tuple[Invariant, ...] = ()
    steps: tuple[StepProperty, ...] = ()


def helpers(definition: Definition) -> Helpers:
    """Those of a protocol; none for a protocol from a file of one's own."""
    if definition.file is not None or definition.name not in registry.NAMES:
        return Helpers()
    known = stated(definition.name)
    return Helpers(known.helpers, known.steps)


def with_helpers(request: Request) -> Request:
    """The request with the helper invariants that exist under its rules, behind its own."""
    own = helpers(request.scenario.definition).invariants
    return replace(
        request,
        invariants=(*request.invariants, *(i for i in own if i.rule is None or request.rules[i.rule])),
    )
