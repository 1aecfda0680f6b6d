"""Fixtures of the checker's tests: `counter` writes a small scenario."""

from tests.checker.conftest import _in_the_repository, counter

__all__ = ["_in_the_repository", "counter"]
