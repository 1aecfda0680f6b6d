"""Which changes of a request log leave its meaning as it was, and which cannot show: computed from the recording."""

from __future__ import annotations

import json
from typing import Any

from highwater.traces.messages.request_lines import (
    FETCH,
    PRODUCE,
    Counted,
    RequestLine,
    read_fetch,
    read_produce,
)
from tests.traces.requests.changes import END, START, Changed
from tests.traces.requests.sensitivity import Recording

BEFORE_MEMBERS = frozenset({41, 74, 77, 95, 100})
"""Errors of an AlterPartition that are found before its members are looked at."""
REFUSED = "a proposal that is refused for something else"
APART = "two proposals for different partitions"
NOTHING = "a write that was refused is not there"
BETWEEN = "an HWM between those that other lines tell before and behind it"
CUT_SHORT = "changes the meaning: where a batch begins, in the last seconds of a leader epoch or of the log"
SECONDS = 4
"""Lines of requests that were under way are waited for three seconds in which the node is active."""
NO_BOUNDARY = "changes the meaning: where a batch begins, at which no follower stopped"


def computed(recording: Recording, changed: Changed) -> str | None:
    """What a change comes to, where that can be computed; None where it has to be read."""
    texts = recording.log.texts[changed.path]
    before = _body(texts[changed.line - 1])
    if changed.what in ("member", "memberEpoch"):
        errors = {p["errorCode"] for t in before["response"]["topics"] for p in t["partitions"]}
        return REFUSED if errors <= BEFORE_MEMBERS else None
    if changed.what == "order":
        other = _body(texts[changed.after - 1])
        both = [{(t["topicId"], p["partitionIndex"]) for t in b["request"]["topics"] for p in t["partitions"]
                 if "partitionIndex" in p} for b in (before, other)]  # fmt: skip
        return APART if all(both) and not both[0] & both[1] else None
    if changed.what == "dropped" and before["requestHeader"]["requestApiKey"] == PRODUCE:
        written = [p for t in before["response"]["responses"] for p in t["partitionResponses"]]
        if written and all(p["errorCode"] and p["baseOffset"] < 0 for p in written):
            return NOTHING
        return _boundary(recording, changed, {(p["index"], p["baseOffset"]) for p in written})
    if changed.what == "baseOffset":
        after = _body(changed.lines[changed.line - 1])["response"]["responses"]
        moved = {(p["index"], p["baseOffset"]) for t, u in zip(before["response"]["responses"], after, strict=True)
                 for p, q in zip(t["partitionResponses"], u["partitionResponses"], strict=True) if p != q}  # fmt: skip
        return _boundary(recording, changed, moved)
    return _between(recording, changed, before) if changed.what == "highWatermark" else None


def _body(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text[text.index(START) + len(START) : -len(END)])
    return found


def _lines(recording: Recording, changed: Changed) -> list[RequestLine]:
    return list(recording._read(changed.path, Counted()))


def _boundary(recording: Recording, changed: Changed, begins: set[tuple[int, int]]) -> str | None:
    """Whether no fetch is where these batches begin, by partition and offset: then they can be of the batch before.

    The recordings have one topic.
    """
    for line in _lines(recording, changed):
        if line.api == FETCH:
            asked = {(p.partition, p.offset) for p in read_fetch(line).asked.values()}
            if asked & begins:
                return CUT_SHORT if _is_cut_short(recording, changed, begins) else None
    return NO_BOUNDARY


def _is_cut_short(recording: Recording, changed: Changed, begins: set[tuple[int, int]]) -> bool:
    lines = _lines(recording, changed)
    at = next(line.answered for line in lines if line.line == changed.line)
    if lines[-1].ended <= at + SECONDS * 1000:
        return True
    partitions = {index for index, _ in begins}
    starts = [
        later.time
        for (_, partition), lives in recording.index.histories.items()
        if partition in partitions
        for history in lives
        for version in history.versions
        if (later := history.begins(version.state.leader_epoch)) is not None
    ]
    return any(at <= start <= at + SECONDS * 1000 for start in starts)


def _between(recording: Recording, changed: Changed, before: dict[str, Any]) -> str | None:
    after = _body(changed.lines[changed.line - 1])
    keys = [
        (t["topicId"], p["partitionIndex"])
        for t, u in zip(before["response"]["responses"], after["response"]["responses"], strict=True)
        for p, q in zip(t["partitions"], u["partitions"], strict=True) if p != q
    ]  # fmt: skip
    (key,) = keys
    lines = _lines(recording, changed)
    here = next(line for line in lines if line.line == changed.line)
    low, high = -1, 1 << 62
    for line in lines:
        for hwm in _told(line, key):
            if line.answered < here.taken:
                low = max(low, hwm)
            elif line.taken > here.answered:
                high = min(high, hwm)
    return BETWEEN if low <= changed.after <= high else None


def _told(line: RequestLine, key: tuple[str, int]) -> list[int]:
    """The HWMs that a line tells of a partition: that of an answer, or past a record that is acknowledged."""
    if line.api == FETCH:
        answer = read_fetch(line).answers.get(key)
        return [] if answer is None or answer.error else [answer.hwm]
    if line.api == PRODUCE:
        return [
            w.offset + 1
            for w in read_produce(line)
            if w.key == key and w.answered and w.acks == -1 and not w.error
        ]
    return []


SAME = frozenset({REFUSED, APART, NOTHING, BETWEEN})
