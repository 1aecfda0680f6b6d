"""What a protocol offers a proof by induction beside its invariants: helper invariants, and properties of steps.

They stand in a module ``inductive`` beside the protocol's invariants: its HELPERS and STEPS, by protocol.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from importlib.util import find_spec

from highwater.checker.catalogue import Definition
from highwater.checker.request import Request
from highwater.model.language.protocol import Invariant
from highwater.model.language.step_properties import StepProperty


@dataclass(frozen=True)
class Helpers:
    """The helper invariants and the properties of steps of one protocol; both can be empty."""

    invariants: tuple[Invariant, ...] = ()
    steps: tuple[StepProperty, ...] = ()


def helpers(definition: Definition) -> Helpers:
    """Those of a protocol; none for a protocol from a file of one's own."""
    name = f"highwater.invariants.{definition.name.split('.')[0]}.inductive"
    try:
        known = definition.file is None and find_spec(name) is not None
    except ModuleNotFoundError:  # the invariants are a module, not a package
        known = False
    if not known:
        return Helpers()
    module = importlib.import_module(name)
    return Helpers(
        tuple(module.HELPERS.get(definition.name, ())), tuple(module.STEPS.get(definition.name, ()))
    )


def with_helpers(request: Request) -> Request:
    """The request with the helper invariants that exist under its rules, behind its own."""
    own = helpers(request.scenario.definition).invariants
    return replace(
        request,
        invariants=(*request.invariants, *(i for i in own if i.rule is None or request.rules[i.rule])),
    )
