"""The native engine: LLVM kernels made from the graph, a shared fingerprint table, all cores."""

from highwater.checker.native.search import search
from highwater.checker.native.simulate import simulate

__all__ = ["search", "simulate"]
