"""The high watermark, and who has reached it: pure functions of sizes and offsets.

A model asks them of its state, and a replay asks them of what brokers logged (``traces/rules/log_rules.py``).
"""

from __future__ import annotations

from highwater.model.language.values import Number, Truth, as_bool


def gate_is_open(isr_size: Number, min_isr: Number) -> Truth:
    """966.1. Whether the HWM may advance: the ISR has min ISR members.

    Else a record is committed on fewer replicas than the operator asked for, and is gone once these few lose it.
    """
    return isr_size >= min_isr


def is_held(end: Number, hwm: Number) -> Truth:
    """B4. Whether a log that is as the leader's up to an offset holds all that is committed below the HWM."""
    return end >= hwm


def has_caught_up(
    leo: Number, hwm: Number, epoch_start: Number, at_hwm: bool = True, at_epoch_start: bool = True
) -> Truth:
    """B5. Whether a follower is far enough to join the ISR: at the leader's HWM and at the start of its epoch.

    Below the HWM it lacks what is committed. The HWM of a new leader lags, so it is not enough: what earlier leaders
    committed is below the start of the epoch. Each of the two can be switched off.
    """
    reached = as_bool(True)
    if at_hwm:
        reached = reached & is_held(leo, hwm)
    if at_epoch_start:
        reached = reached & (leo >= epoch_start)
    return reached


def end_is_told(hwm: Number, epoch_start: Number) -> Truth:
    """B5. Whether a leader tells consumers its HWM as the end of the log: once it has reached the epoch's start.

    Before, it lags behind what an earlier leader has told them.
    """
    return hwm >= epoch_start
