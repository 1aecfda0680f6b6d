"""The native engine: LLVM kernels generated from the graph, a shared fingerprint table, all cores."""

from highwater.checker.engines.native.simulate import simulate
from highwater.checker.engines.native.state_graph import search

__all__ = ["search", "simulate"]
