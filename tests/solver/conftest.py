"""The fixtures of the command's tests: `highwater` runs it, `counter` writes a small scenario."""

from tests.checker.conftest import _in_the_repository, counter, highwater

__all__ = ["_in_the_repository", "counter", "highwater"]
