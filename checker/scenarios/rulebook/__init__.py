"""A rule by its number, with all that goes with it: for ``highwater show``, docs/rules.md and what links to it."""

from highwater.checker.scenarios.rulebook.entries import find, listed, names, unknown_number

__all__ = ["find", "listed", "names", "unknown_number"]
