"""Rules of a controller to replay with: a profile, and single rules switched on or off over it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from highwater.model.language.choices import rules_on
from highwater.model.replication.controller import Controller


@dataclass(frozen=True)
class RuleSet:
    """A profile's name, and the rules that are on after all switches."""

    profile: str
    rules: frozenset[str]


def rule_set(
    profile: str, switched: Mapping[str, bool] | None = None, also_on: Iterable[str] = ()
) -> RuleSet:
    """The rules of a profile, those in ``also_on``, and over both what is switched.

    Raises ChoiceError for a profile or a rule that does not exist.
    """
    return RuleSet(profile, rules_on(Controller, profile, dict.fromkeys(also_on, True), switched or {}))
