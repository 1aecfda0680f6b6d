"""Logs: where an epoch ends, where two logs part, and where a follower truncates to. Pure functions."""

from __future__ import annotations

from typing import Any

from highwater.model.language import Number, OptionValue, SeqValue, Truth, least, total, where

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
