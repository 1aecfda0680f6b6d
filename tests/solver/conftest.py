"""Fixtures of the checker's tests: `highwater` runs the command, `counter` writes a small scenario."""

from tests.checker.conftest import _in_the_repository, counter, highwater

__all__ = ["_in_the_repository", "counter", "highwater"]
