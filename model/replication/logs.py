"""Pure functions of logs, offsets and the HWM: divergence, comparison of logs, catching up.

The model applies them to its state, and the replay of brokers' logs (``traces/rules/profiles.py``) to recorded values.
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
    """KIP-101. The end offset of the last record whose leader epoch is at most ``epoch``; 0 if there is none."""
    return total((log.length > i) & (log.at(i).epoch <= epoch) for i in range(log.type.maximum))


def epoch_before(log: SeqValue, end: Number) -> Any:
    """The leader epoch of the last record before an offset; zero if there is none."""
    return log[end - 1].epoch


def diverges(log: SeqValue, fetch_offset: Number, last_fetched_epoch: OptionValue) -> Truth:
    """B3. True if the leader's ``log`` has no record of the last fetched epoch, or ends it before ``fetch_offset``.

    False if the follower's log is empty; there is no last fetched epoch then.
    """
    end = end_offset_for_epoch(log, last_fetched_epoch.value)
    same_epoch = (end > 0) & (epoch_before(log, end) == last_fetched_epoch.value)
    return last_fetched_epoch.is_some & (~same_epoch | (end < fetch_offset))


def truncation_offset(log: SeqValue, diverging_epoch: OptionValue, diverging_end: Number) -> Number:
    """B3. The offset to truncate to: the largest offset at which both logs can still agree.

    ``diverging_epoch`` and ``diverging_end`` come from the leader's response.
    """
    own_end = where(diverging_epoch.is_some, end_offset_for_epoch(log, diverging_epoch.value), 0)
    return least(own_end, diverging_end)


def last_epoch(option: Any, log: SeqValue) -> OptionValue:
    """The leader epoch of the log's last record, as an Option; none if the log is empty."""
    return where(log.is_empty, option.none(), option.some(log.last.epoch))


def same_record(first: SeqValue, second: SeqValue, offset: int) -> Truth:
    """True if two logs hold the same record at an offset."""
    return (first.length > offset) & (second.length > offset) & (first.at(offset) == second.at(offset))


def is_better_log(
    theirs: StructValue,
    mine: StructValue,
    by_epoch: bool = True,
    by_length: bool = True,
    prefers_longer: bool = True,
) -> Truth:
    """966.14. True if ``theirs`` has the later last leader epoch or, with equal epochs, the larger log end offset.

    Each log has ``last_epoch`` (none if it is empty) and ``end``, its log end offset. Without ``by_epoch``,
    epochs are not compared; without ``by_length``, lengths are not compared; without ``prefers_longer``, the shorter
    log is better.
    """
    epoch, own = theirs.last_epoch, mine.last_epoch
    newer = epoch.is_some & (own.is_none | (epoch.value > own.value)) & by_epoch
    longer = theirs.end > mine.end if prefers_longer else theirs.end < mine.end
    return newer | (((epoch == own) | (not by_epoch)) & longer & by_length)


# --- the high watermark ---------------------------------------------------------------------------------------


def gate_is_open(isr_size: Number, min_isr: Number) -> Truth:
    """966.1. True if the HWM may advance: the ISR has at least ``min_isr`` members.

    With fewer members a record would be committed on fewer replicas than min.insync.replicas requires.
    """
    return isr_size >= min_isr


def is_held(end: Number, hwm: Number) -> Truth:
    """B4. True if a log that agrees with the leader's up to ``end`` holds all records below the HWM."""
    return end >= hwm


def has_caught_up(
    leo: Number, hwm: Number, epoch_start: Number, at_hwm: bool = True, at_epoch_start: bool = True
) -> Truth:
    """B5. True if a follower may join the ISR: its LEO has reached the leader's HWM and LESO (``epoch_start``).

    A follower below the HWM lacks committed records. The HWM of a new leader lags, but all records that earlier leaders
    committed are below the LESO. With ``at_hwm`` or ``at_epoch_start`` false, the condition on the HWM or the LESO is
    left out.
    """
    reached = as_bool(True)
    if at_hwm:
        reached = reached & is_held(leo, hwm)
    if at_epoch_start:
        reached = reached & (leo >= epoch_start)
    return reached


def end_is_told(hwm: Number, epoch_start: Number) -> Truth:
    """B5. True if a leader may give consumers its HWM as the end of the log: the HWM has reached the LESO.

    An HWM below the LESO (``epoch_start``) may be below the end that an earlier leader gave.
    """
    return hwm >= epoch_start
