"""The native engine: LLVM kernels made from the graph, a shared fingerprint table, all cores."""

from checker.native.search import search
from checker.native.simulate import simulate

__all__ = ["search", "simulate"]
