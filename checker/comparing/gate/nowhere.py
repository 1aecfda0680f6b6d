"""Rules that a gate knows nothing of: on in no profile, and in nothing that it runs."""

from __future__ import annotations

from collections.abc import Sequence

from highwater.checker.base.problems import InputError
from highwater.checker.comparing.gate.entries import GateEntry
from highwater.model.language.protocol import Protocol


def rules_on_nowhere(entries: Sequence[GateEntry]) -> list[str]:
    """What to say of the rules, of the protocols of these entries, that no profile has and no entry switches on."""
    protocols: dict[str, type[Protocol]] = {}
    on: dict[str, set[str]] = {}
    for entry in entries:
        try:
            asked = entry.request()
        except InputError:  # it is told where the entry is run
            continue
        name = asked.scenario.definition.name
        protocols[name] = asked.scenario.protocol
        on.setdefault(name, set()).update(rule for rule, is_on in asked.rules.items() if is_on)
    found = []
    for name, protocol in sorted(protocols.items()):
        somewhere = on[name].union(*(profile.rules for profile in protocol.profiles.values()))
        rules = [f"{rule} ({r.source})" for rule, r in protocol.rules.items() if rule not in somewhere]
        if rules:
            found.append(f"{name}: on in no profile and in nothing that is run here: {', '.join(rules)}")
    return found
