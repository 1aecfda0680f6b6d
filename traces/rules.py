"""Rules to replay with: a profile, and single rules switched on or off over it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from highwater.model.language.errors import LanguageError
from highwater.model.replication.controller.rules import PROFILES, RULES


@dataclass(frozen=True)
class RuleSet:
    """A profile's name, and the rules that are on after all switches."""

    profile: str
    rules: frozenset[str]


def rule_set(
    profile: str, switched: Mapping[str, bool] | None = None, also_on: Iterable[str] = ()
) -> RuleSet:
    """The rules of a profile, those in ``also_on``, and over both what is switched.

    Raises LanguageError for a profile or a rule that does not exist.
    """
    if profile not in PROFILES:
        raise LanguageError(f"there is no profile {profile!r}; there are {', '.join(sorted(PROFILES))}")
    on = {*PROFILES[profile].rules, *also_on}
    for rule, is_on in (switched or {}).items():
        if rule not in RULES:
            raise LanguageError(f"there is no rule {rule!r}; there are {', '.join(sorted(RULES))}")
        (on.add if is_on else on.discard)(rule)
    return RuleSet(profile, frozenset(on))


__all__ = ["RuleSet", "rule_set"]
