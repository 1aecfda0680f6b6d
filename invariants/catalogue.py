"""The catalogue of properties: one name has one meaning, in every protocol and in every replay of logs.

A protocol's module in this package has the tuples INVARIANTS, STEP_PROPERTIES, LIVENESS and REACHABLE (reachability
goals), which ``definitions`` collects. A module ``inductive`` beside it has the helper invariants that are proved
together with the invariants.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from highwater.model import registry
from highwater.model.language import Invariant, Liveness, StepProperty
from highwater.model.language.protocol import Goal

METADATA_LOG, BROKER_LOGS, REQUEST_LOGS = "metadata log", "broker logs", "request logs"
"""The kinds of recordings that a replay checks properties on."""


@dataclass(frozen=True)
class Stated:
    """All that is stated about a protocol: its properties, reachability goals, and helpers for inductive proofs."""

    invariants: tuple[Invariant, ...] = ()
    step_properties: tuple[StepProperty, ...] = ()
    liveness: tuple[Liveness, ...] = ()
    helpers: tuple[Invariant, ...] = ()
    helper_steps: tuple[StepProperty, ...] = ()
    reachable: tuple[Goal, ...] = ()
    """Goals: a scenario can expect that some state or step satisfies one."""


@cache
def stated(name: str) -> Stated:
    """The properties of the protocol of this name. Raises ChoiceError if there is no such protocol."""
    protocol = registry.protocol_of(name)
    module = importlib.import_module(f"highwater.invariants.{name}")
    return Stated(
        (*getattr(module, "INVARIANTS", ()), *protocol.invariants),
        (*getattr(module, "STEP_PROPERTIES", ()), *protocol.step_properties),
        (*getattr(module, "LIVENESS", ()), *protocol.liveness),
        getattr(module, "HELPERS", ()),
        getattr(module, "HELPER_STEPS", ()),
        (*getattr(module, "REACHABLE", ()), *protocol.reachable),
    )


@dataclass
class CatalogueEntry:
    """A property: its name, its meaning, and the numbers of its rules.

    ``checked_by`` maps each checker (a protocol, or a kind of logs) to the rule numbers as text.
    """

    name: str
    meaning: str
    checked_by: dict[str, str] = field(default_factory=dict)


@cache
def catalogue() -> dict[str, CatalogueEntry]:
    """Every property, by name. Raises ValueError if two properties of one name have different meanings."""
    found: dict[str, CatalogueEntry] = {}
    for checker, one in _all():
        known = found.setdefault(one.name, CatalogueEntry(one.name, one.meaning))
        if known.meaning != one.meaning:
            raise ValueError(f"{one.name} says {known.meaning!r}, and of {checker} {one.meaning!r}")
        known.checked_by[checker] = one.source
    return found


@cache
def observed() -> dict[str, CatalogueEntry]:
    """The properties that a replay checks on recorded logs, by name.

    ``checked_by`` of each entry has kinds of logs only, no protocols.
    """
    found: dict[str, CatalogueEntry] = {}
    for name, entry in catalogue().items():
        logs = {of: source for of, source in entry.checked_by.items() if of not in registry.NAMES}
        if logs:
            found[name] = CatalogueEntry(name, entry.meaning, logs)
    return found


def _all() -> Iterator[tuple[str, Any]]:
    from highwater.invariants.replication import observed

    for name in registry.NAMES:
        here = stated(name)
        kinds: tuple[tuple[Any, ...], ...] = (
            here.invariants,
            here.step_properties,
            here.liveness,
            here.helpers,
            here.helper_steps,
            here.reachable,
        )
        for kind in kinds:
            yield from ((name, one) for one in kind)
    controllers = stated("replication.controller").invariants
    for one in (*controllers, *observed.FINDINGS, *observed.CONDITIONS):
        yield METADATA_LOG, one
    yield from ((BROKER_LOGS, one) for one in observed.OF_BROKERS)
    yield from ((REQUEST_LOGS, one) for one in observed.OF_REQUESTS)
