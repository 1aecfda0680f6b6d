"""Liveness on explored graphs: search for fair runs that violate a liveness property."""

from highwater.checker.engines.liveness.search import LivenessResult, search_with_liveness, violating_run

__all__ = ["LivenessResult", "search_with_liveness", "violating_run"]
