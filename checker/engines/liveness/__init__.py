"""Liveness on explored graphs: fair runs on which what must happen never does."""

from highwater.checker.engines.liveness.search import LivenessResult, search_with_liveness, violating_run

__all__ = ["LivenessResult", "search_with_liveness", "violating_run"]
