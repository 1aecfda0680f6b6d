"""Brokers of different versions: a scenario names at most one that is older in one thing (903.1, 903.3, 966.1).

What an older broker sends has no broker epochs (−1), and who gets that does not compare them: else a rolling
upgrade would stop replication.
"""

from __future__ import annotations

from highwater.model.language import Number, Truth, as_bool


def is_the(b: Number, named: int) -> Truth:
    """Whether a broker is the one that a parameter names, counted from 1; 0 names nobody."""
    return as_bool(False) if named == 0 else b == named - 1
