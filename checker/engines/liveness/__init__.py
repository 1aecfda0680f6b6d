"""Liveness on explored graphs: fair runs on which what must happen never does."""

from highwater.checker.engines.liveness.decide import search_with_liveness
from highwater.checker.engines.liveness.search import LivenessResult, violating_run

__all__ = ["LivenessResult", "search_with_liveness", "violating_run"]
