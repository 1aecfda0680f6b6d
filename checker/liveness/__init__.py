"""Liveness on explored graphs: fair runs on which what must happen never does."""

from highwater.checker.liveness.decide import decide
from highwater.checker.liveness.search import Finding, violating_run

__all__ = ["Finding", "decide", "violating_run"]
