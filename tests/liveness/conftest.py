"""Fixtures of the checker's tests, for the liveness tests."""

from tests.checker.conftest import highwater

__all__ = ["highwater"]
