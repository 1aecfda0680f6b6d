"""Fixtures of the checker's tests, for the rulebook tests."""

from tests.checker.conftest import highwater

__all__ = ["highwater"]
