"""The widest models of a protocol: together they have all its actions, guards and branches of rules.

A change of the protocol that no scenario sees is a change of their expressions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from hashlib import blake2b

from highwater.checker.scenarios.catalogue import Definition
from highwater.checker.scenarios.model_key import KEPT, by_action
from highwater.model.language import (
    Invariant,
    LanguageError,
    Liveness,
    Model,
    Parameter,
    Protocol,
    StepProperty,
)
from highwater.model.language.model import trace_liveness, trace_step_property

STATE = "state"
"""The part that has the fields and the initial states."""


def digests(definition: Definition) -> dict[str, str]:
    """A digest of each part of a protocol: its state, ``action NAME`` and ``property NAME``.

    A digest has the different expressions of the part in all widest models. It contains no names, and does not change
    if a new model repeats known expressions.
    """
    found: dict[str, set[str]] = defaultdict(set)
    kinds = definition.invariants, definition.step_properties, definition.liveness
    stated = {p.name: p for kind in (*kinds, definition.helpers, definition.reachable) for p in kind}
    for parameters, rules in variants(definition.protocol):
        try:
            model = Model(definition.protocol(parameters, rules))
            found[STATE].add(_start(model))
        except LanguageError:  # these values do not go together
            continue
        for name, own in by_action(model).items():
            found[f"action {name}"].add(KEPT.action(own))
        for name, prop in stated.items():
            if model.protocol.has(prop):
                found[f"property {name}"].add(_property(model, prop))
    return {part: _digest(*sorted(own)) for part, own in sorted(found.items())}


def variants(protocol: type[Protocol]) -> Iterator[tuple[Mapping[str, int], frozenset[str]]]:
    """The parameters and rules of the widest models.

    Options are on and budgets above zero, with all rules, no rules, and the rules of each profile. The last model has
    options off, with all rules.
    """
    known, every = protocol.parameters, frozenset(protocol.rules)
    wide = {name: _wide(parameter) for name, parameter in known.items()}
    profiles = (frozenset(profile.rules) for profile in protocol.profiles.values())
    for rules in dict.fromkeys((every, frozenset[str](), *profiles)):
        yield wide, rules
    yield {name: parameter.low for name, parameter in known.items() if parameter.is_switch}, every


def _wide(parameter: Parameter) -> int:
    """The value of a parameter that adds most: the last of few choices, or at least 1."""
    if parameter.default == parameter.low and parameter.high - parameter.low <= 2:
        return parameter.high
    return max(parameter.default, min(parameter.high, 1))


def _start(model: Model) -> str:
    start = model.start
    assert start is not None
    families = sorted(f"{f.scalars}{[(p.start, p.choices) for p in f.parts]}" for f in start.families)
    leaves = (f"{leaf.sort}:{leaf.low}:{leaf.high}" for leaf in model.leaves)
    return _digest(*leaves, *families, KEPT.node(start.condition))


def _property(model: Model, stated: Invariant | StepProperty | Liveness) -> str:
    try:
        if isinstance(stated, Invariant):
            return KEPT.property(model.trace_invariant(stated))
        if isinstance(stated, StepProperty):
            return KEPT.step_property(trace_step_property(model, stated))
        return KEPT.liveness(model, trace_liveness(model, stated))
    except LanguageError:  # it has no meaning with these values
        return ""


def _digest(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=10).hexdigest()
