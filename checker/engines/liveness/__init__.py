"""Liveness on explored graphs: search for fair runs that never reach a goal that is due."""

from highwater.checker.engines.liveness.search import LivenessResult, search_with_liveness, violating_run

__all__ = ["LivenessResult", "search_with_liveness", "violating_run"]
