"""Changes of which records a log has, and in which order: each one a log of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

from highwater.traces.kafka.batches import RecordBatch
from tests.traces.metadata.mutations import Log, Mutation, with_batches


def whole_records(log: Log) -> Iterator[Mutation]:
    """Every record removed or written twice, every two neighbours swapped."""
    found = list(log.records())
    for number, offset, record in found:
        for kind, make in (
            ("record removed, gap", _removed(log, number, offset)),
            ("record removed, gap within the batch", _removed_within(log, number, offset)),
            ("record removed, renumbered", _renumbered(log, number, offset, 0)),
            ("record twice", _renumbered(log, number, offset, 2)),
        ):
            if kind.endswith("batch") and len(log.batches[number].values) == 1:
                continue
            yield Mutation(kind, record.type, offset, str(record.data)[:200], make, (record,))
    for (a, first, one), (b, second, other) in pairwise(found):
        if one == other or second != first + 1:
            continue
        kind = "swapped within a batch" if a == b else "swapped across batches"
        where = " and ".join(sorted((one.type, other.type)))
        what = f"{one.data} and {other.data}"[:300]
        yield Mutation(
            kind, where, first, what, _swapped(log, a, b, first, second), (one, other), last=second
        )


def _removed(log: Log, number: int, offset: int) -> Callable[[], Log]:
    """The offset of the record is missing: what follows it in its batch becomes a batch of its own."""

    def make() -> Log:
        batch = log.batches[number]
        at = offset - batch.base_offset
        parts = [
            batch._replace(
                base_offset=batch.base_offset + a,
                last_offset=batch.base_offset + b - 1,
                offsets=range(batch.base_offset + a, batch.base_offset + b),
                values=batch.values[a:b],
            )
            for a, b in ((0, at), (at + 1, len(batch.values)))
            if a < b
        ]
        return with_batches(log, number, 1, parts)

    return make


def _removed_within(log: Log, number: int, offset: int) -> Callable[[], Log]:
    """The offset of the record is missing within its batch, which goes as far as before."""

    def make() -> Log:
        batch = log.batches[number]
        kept = [(o, v) for o, v in zip(batch.offsets, batch.values, strict=True) if o != offset]
        changed = batch._replace(offsets=[o for o, _ in kept], values=[v for _, v in kept])
        return with_batches(log, number, 1, [changed])

    return make


def _renumbered(log: Log, number: int, offset: int, copies: int) -> Callable[[], Log]:
    """A record so many times, and all that follows with offsets without gaps; broker epochs stay as they are."""

    def make() -> Log:
        moved = copies - 1
        found = list(log.batches[:number])
        batch = log.batches[number]
        at = offset - batch.base_offset
        values = [*batch.values[:at], *[batch.values[at]] * copies, *batch.values[at + 1 :]]
        if values:
            found.append(_at(batch._replace(values=values), batch.base_offset))
        found += [_at(b, b.base_offset + moved) for b in log.batches[number + 1 :]]
        snapshots = [
            replace(s, end_offset=s.end_offset + moved) if s.end_offset > offset else s for s in log.snapshots
        ]
        return Log(tuple(found), tuple(snapshots))

    return make


def _at(batch: RecordBatch, base: int) -> RecordBatch:
    end = base + len(batch.values)
    return batch._replace(base_offset=base, last_offset=end - 1, offsets=range(base, end))


def _swapped(log: Log, a: int, b: int, first: int, second: int) -> Callable[[], Log]:
    def make() -> Log:
        found = list(log.batches)
        values = [list(found[n].values) for n in (a, b)]
        i, j = first - found[a].base_offset, second - found[b].base_offset
        one, other = values[0][i], values[1][j]
        for number, at, value in ((a, i, other), (b, j, one)):
            changed = list(found[number].values)
            changed[at] = value
            found[number] = found[number]._replace(values=changed)
        return replace(log, batches=tuple(found))

    return make
