"""Model-based testing with Hypothesis: any protocol as a stateful machine. Needs the extra ``test``."""

try:
    import hypothesis as _needed  # noqa: F401
except ModuleNotFoundError:
    raise ImportError(
        "highwater.checker.testing.machines needs the package hypothesis: pip install 'highwater-checker[test]'"
    ) from None

from highwater.checker.testing.machines.stateful import ModelMachine, Violated, machine

__all__ = ["ModelMachine", "Violated", "machine"]
