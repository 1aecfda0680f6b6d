"""The native engine: LLVM kernels generated from the graph, a shared fingerprint table, all cores.

In: a Model. Out: levels of distinct states, violations and counts. It may know the graph and the operating system.
"""

from highwater.checker.engines.native.simulate import simulate
from highwater.checker.engines.native.state_graph import search

__all__ = ["search", "simulate"]
