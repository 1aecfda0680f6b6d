"""The command, as the tests of the checker run it."""

from tests.checker.conftest import highwater

__all__ = ["highwater"]
