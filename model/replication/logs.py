"""Logs, offsets and the high watermark as pure functions: where logs part, which is better, who has caught up.

A model asks them of its state, and a replay of what brokers logged (``traces/rules/profiles.py``).
"""

from __future__ import annotations

from typing import Any

from highwater.model.language import (
    Number,
    OptionValue,
    SeqValue,
    StructValue,
    Truth,
    as_bool,
    least,
    total,
    where,
)

# A log is a Seq of records with ascending leader epochs.


def end_offset_for_epoch(log: SeqValue, epoch: Number) -> Number:
    """KIP-101. One past the last record whose leader epoch is not larger."""
    return total((log.length > i) & (log.at(i).epoch <= epoch) for i in range(log.type.maximum))


def epoch_before(log: SeqValue, end: Number) -> Any:
    """The leader epoch of the record before an offset; zero where there is none."""
    return log[end - 1].epoch


def diverges(log: SeqValue, fetch_offset: Number, last_fetched_epoch: OptionValue) -> Truth:
    """B3. Whether (last fetched epoch, fetch offset) is not on the leader's log."""
    end = end_offset_for_epoch(log, last_fetched_epoch.value)
    same_epoch = (end > 0) & (epoch_before(log, end) == last_fetched_epoch.value)
    return last_fetched_epoch.is_some & (~same_epoch | (end < fetch_offset))


def truncation_offset(log: SeqValue, diverging_epoch: OptionValue, diverging_end: Number) -> Number:
    """B3. The largest offset at which the follower's log can still be the leader's, by a diverging answer."""
    own_end = where(diverging_epoch.is_some, end_offset_for_epoch(log, diverging_epoch.value), 0)
    return least(own_end, diverging_end)


def last_epoch(option: Any, log: SeqValue) -> OptionValue:
    """The leader epoch of the last record, if there is one."""
    return where(log.is_empty, option.none(), option.some(log.last.epoch))


def same_record(first: SeqValue, second: SeqValue, offset: int) -> Truth:
    """Whether two logs hold the same record at an offset."""
    return (first.length > offset) & (second.length > offset) & (first.at(offset) == second.at(offset))


def is_better_log(
    theirs: StructValue,
    mine: StructValue,
    by_epoch: bool = True,
    by_length: bool = True,
    prefers_longer: bool = True,
) -> Truth:
    """966.14. Whether a log is better than another: by the leader epoch of its last record, then by its length.

    Each log has ``last_epoch`` (none: it is empty) and ``end``, its log end offset.
    """
    epoch, own = theirs.last_epoch, mine.last_epoch
    newer = epoch.is_some & (own.is_none | (epoch.value > own.value)) & by_epoch
    longer = theirs.end > mine.end if prefers_longer else theirs.end < mine.end
    return newer | (((epoch == own) | (not by_epoch)) & longer & by_length)


# --- the high watermark ---------------------------------------------------------------------------------------


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
