"""The native engine: LLVM kernels made from the graph, a shared fingerprint table, all cores."""

from highwater.checker.engines.native.engine import search
from highwater.checker.engines.native.simulate import simulate

__all__ = ["search", "simulate"]
