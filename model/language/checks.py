"""Ordered, named checks: what a server looks at before it does what it was asked, and what it answers.

A step of a protocol either happens or not, so its guards have no order (``require``). A server that
answers a request goes through its checks one after the other, and the first that fails gives the answer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from highwater.model.language import mutation
from highwater.model.language.errors import LanguageError, fail
from highwater.model.language.tracing import require
from highwater.model.language.values import Truth, all_of, as_bool, where


@dataclass(frozen=True)
class NamedCheck:
    """One check: its name, the condition that it asks for, and the answer where that does not hold."""

    name: str
    holds: Truth
    answer: Any


class Checks:
    """Checks in the order in which they are made.

    ``passed_answer`` is what is answered where all of them hold. ``on`` tells whether a rule is switched on, for
    checks that belong to one.
    """

    def __init__(self, passed_answer: Any, on: Callable[[str], bool] | None = None) -> None:
        self.passed_answer = passed_answer
        self._on = on
        self._checks: list[NamedCheck] = []

    def check(self, name: str, holds: Truth | bool, answer: Any, *, rule: str | None = None) -> None:
        """The next check: where the condition does not hold, and nothing before refused, this is the answer.

        With ``rule`` the check is made only where that rule is switched on; LanguageError where there is none of that
        name.
        """
        holds = as_bool(holds)
        if mutation.active is not None:
            holds = Truth(None, (mutation.condition("check", name, holds.node, sys._getframe(1)),))
        check = NamedCheck(name, holds, answer)
        if rule is None or self._is_on(rule):
            self._checks.append(check)

    def _is_on(self, rule: str) -> bool:
        if self._on is None:
            raise fail(f"a check under rule {rule!r}: say what is switched on, Checks(…, on=…)")
        try:
            return self._on(rule)
        except LanguageError as wrong:
            raise fail(str(wrong)) from None

    def __iter__(self) -> Iterator[NamedCheck]:
        """The checks, in order."""
        return iter(self._checks)

    @property
    def passed(self) -> Truth:
        """Whether every check holds."""
        return all_of(c.holds for c in self._checks)

    @property
    def answer(self) -> Any:
        """The answer of the first check that does not hold, or ``passed_answer``."""
        answer = self.passed_answer
        for check in reversed(self._checks):
            answer = where(check.holds, answer, check.answer)
        return answer

    def require(self) -> None:
        """Make every check a guard of the action that is being stated: it happens only where all hold."""
        for check in self._checks:
            require(check.name, check.holds)
