"""How many single changes of the recorded logs the replay reports. As a program: measures all, and writes the tables.

``python -m tests.traces.metadata.sensitivity [--kafka 4.2] [--write] [--sample N] [SCENARIO …]``
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.traces.clusters import CLUSTERS, SCENARIOS
from tests.traces.kafka.made import CLUSTERS_4_2, NAMES_4_2
from tests.traces.metadata.accounts import (
    ALLOWED,
    MISSED,
    SETTING,
    WITHOUT_MEANING,
    Replayed,
    is_doubted,
    is_reported,
    reason,
    replayed,
    shared,
)
from tests.traces.metadata.corruptions import corruptions
from tests.traces.metadata.mutations import Log, Mutation, fields, fields_of_snapshots, read
from tests.traces.metadata.orders import whole_records

MEASURED = Path(__file__).with_name("sensitivity-2024.txt")
"""The tables of all changes of the clusters of 2024."""
MEASURED_4_2 = Path(__file__).with_name("sensitivity-4.2.txt")
"""Those of a sample of the changes of the clusters of Kafka 4.2.1."""
OF_4_2 = "4.2-"
"""Before the names of the clusters of Kafka 4.2.1."""
SAMPLE_4_2 = 10
"""So many changes of each kind and cluster of Kafka 4.2.1 are in the tables, with snapshots and without."""
TRIED, REPORTED = "tried", "reported"
AT, SAME_BATCH, LATER, EARLIER = "at the record", "in its batch", "later", "earlier"
DOUBTED = "nowhere: a doubt alone"
NO_OFFSET = "no offset: rules that do not fit all partitions, other rules, or a log that cannot be read"
SEED = 1
ALL_4_2 = [f"{OF_4_2}{name}" for name in NAMES_4_2]
"""The clusters of Kafka 4.2.1."""


@dataclass
class Tally:
    """What was measured: for each kind, with snapshots or without, how many changes had which outcome.

    ``decisions`` are the decisions of an unreported change that is another history, by kind; ``unaccounted`` the
    changes that are neither reported nor accounted for, ``missed`` those that should be reported and are not.
    """

    kinds: dict[tuple[str, bool], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    decisions: Counter[tuple[str, str]] = field(default_factory=Counter)
    unaccounted: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def __iadd__(self, other: Tally) -> Tally:
        """Both together."""
        for key, counts in other.kinds.items():
            self.kinds[key].update(counts)
        self.decisions.update(other.decisions)
        self.unaccounted += other.unaccounted
        self.missed += other.missed
        return self

    def total(self, snapshots: bool) -> Counter[str]:
        """Over all kinds."""
        found: Counter[str] = Counter()
        for (_, with_snapshots), counts in self.kinds.items():
            if with_snapshots == snapshots:
                found.update(counts)
        return found


def mutations(log: Log, *, corrupted: bool = False) -> Iterator[Mutation]:
    """All single changes of a log; ``corrupted``: of the kinds that were added for Kafka 4.2.1, too."""
    more = corruptions(log) if corrupted else iter(())
    return chain(fields(log), fields_of_snapshots(log), whole_records(log), more)


def one(tally: Tally, name: str, mutation: Mutation, log: Log, original: Replayed, folder: Path) -> None:
    """Try one change."""
    changed = replayed(mutation.make(), folder)
    counts = tally.kinds[mutation.kind, bool(log.snapshots)]
    counts[TRIED] += 1
    if is_reported(mutation, original, changed):
        counts[REPORTED] += 1
        if changed.first is not None:
            counts[position(mutation, log, changed.first)] += 1
        elif is_doubted(original, changed):
            counts[DOUBTED] += 1
        return
    why, decisions = reason(mutation, log, original, changed)
    said = f"{name}, {'with' if log.snapshots else 'without'} snapshots, {mutation}: {decisions}"
    counts[why] += 1
    if not why:
        tally.unaccounted.append(said)
    elif why in MISSED:
        tally.missed.append(said)
    elif why == ALLOWED:
        tally.decisions[mutation.kind, decisions] += 1


def position(mutation: Mutation, log: Log, first: int) -> str:
    """Where the first entry stands, seen from the change; a removed record shows at the one that follows."""
    if first in (mutation.offset, mutation.last):
        return AT
    for batch in log.batches:
        if batch.base_offset <= mutation.offset <= batch.last_offset:
            if batch.base_offset <= first <= batch.last_offset + 1:
                return SAME_BATCH
            break
    return LATER if first > mutation.offset else EARLIER


def folder_of(name: str) -> Path:
    """The log of a recorded cluster; those of Kafka 4.2.1 have "4.2-" before their names."""
    of_4_2 = name.startswith(OF_4_2)
    return (CLUSTERS_4_2 if of_4_2 else CLUSTERS) / name.removeprefix(OF_4_2) / "__cluster_metadata-0"


def measure(name: str, sample: int | None = None) -> Tally:
    """All changes of one cluster's log, or so many of each kind; without its snapshots, and with any that it has."""
    tally = Tally()
    full = read(folder_of(name))
    with TemporaryDirectory() as folder, shared():
        for log in (full, full.without_snapshots()) if full.snapshots else (full,):
            original = replayed(log, Path(folder))
            assert not original.report.unexplained_count
            for mutation in chosen(log, sample, corrupted=name.startswith(OF_4_2)):
                one(tally, name, mutation, log, original, Path(folder))
    return tally


def chosen(log: Log, sample: int | None, *, corrupted: bool = False) -> list[Mutation]:
    """All changes of a log; or at most so many of each kind, always the same ones."""
    by_kind: dict[str, list[Mutation]] = defaultdict(list)
    for mutation in mutations(log, corrupted=corrupted):
        by_kind[mutation.kind].append(mutation)
    if sample is None:
        return list(chain.from_iterable(by_kind.values()))
    draw = random.Random(SEED)
    return [m for found in by_kind.values() for m in draw.sample(found, min(sample, len(found)))]


def measure_all(names: Sequence[str], sample: int | None = None, workers: int = 2) -> Tally:
    """Several clusters, in processes of their own."""
    tally = Tally()
    with ProcessPoolExecutor(workers) as pool:
        # The longest first.
        order = sorted(names, key=lambda n: ("mixed" not in n, n))
        for found in pool.map(measure, order, [sample] * len(names)):
            tally += found
    return tally


# --- the table --------------------------------------------------------------------------------------------


def share(part: int, whole: int) -> str:
    """In percent, never rounded up to 100."""
    if not whole:
        return ""
    return "100 %" if part == whole else f"{int(1000 * part / whole) / 10:.1f} %"


def table(tally: Tally) -> str:
    """The measured figures, as they stand in the file."""
    lines: list[str] = []
    for snapshots in (True, False):
        lines += [f"{'With' if snapshots else 'Without'} snapshots:\n\n"]
        lines += [
            "| change | tried | same meaning | setting | another history | reported | missed | share |\n"
        ]
        lines += ["| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"]
        rows = sorted(k for k, with_snapshots in tally.kinds if with_snapshots == snapshots)
        for kind in rows:
            lines.append(_row(kind, tally.kinds[kind, snapshots]))
        lines += [_row("**all**", tally.total(snapshots)), "\n"]
    lines += ["Changes with the same meaning, by reason:\n\n", "| reason | changes |\n| --- | ---: |\n"]
    both = tally.total(True) + tally.total(False)
    lines += [f"| {why} | {both[why]:,} |\n" for why in WITHOUT_MEANING]
    lines += ["\nAnother history, by the decisions at the changed record, before and after the change:\n\n"]
    lines += ["| change | decisions before → after | changes |\n| --- | --- | ---: |\n"]
    lines += [
        f"| {kind} | {what.replace('=>', '→')} | {n:,} |\n"
        for (kind, what), n in sorted(tally.decisions.items())
    ]
    lines += ["\nWhere the first entry of the report stands:\n\n", "| place | reported changes | share |\n"]
    lines += ["| --- | ---: | ---: |\n"]
    places = [(p, both[p]) for p in (AT, SAME_BATCH, LATER, EARLIER, DOUBTED)]
    placed = sum(number for _, number in places)
    for place, number in (*places, (NO_OFFSET, both[REPORTED] - placed)):
        lines.append(f"| {place} | {number:,} | {share(number, both[REPORTED])} |\n")
    return "".join(lines)


def _row(kind: str, counts: Counter[str]) -> str:
    same = sum(counts[why] for why in WITHOUT_MEANING)
    missed = sum(counts[why] for why in (*MISSED, ""))
    cells = (counts[TRIED], same, counts[SETTING], counts[ALLOWED], counts[REPORTED], missed)
    told = share(counts[REPORTED], counts[REPORTED] + missed)
    return f"| {kind} | {' | '.join(f'{c:,}' for c in cells)} | {told} |\n"


def main() -> None:
    """Measure, and print the tables or write them into their file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "scenarios", nargs="*", help="all if none is named; those of Kafka 4.2.1 begin with 4.2-"
    )
    parser.add_argument("--kafka", choices=("2024", "4.2"), default="2024", help="which recordings")
    parser.add_argument("--sample", type=int, help="at most so many changes of each kind and cluster, 0: all")
    parser.add_argument("--write", action="store_true", help="write the tables beside this program")
    given = parser.parse_args()
    of_4_2 = given.kafka == "4.2"
    names, measured = (ALL_4_2, MEASURED_4_2) if of_4_2 else (SCENARIOS, MEASURED)
    sample = (SAMPLE_4_2 if of_4_2 else None) if given.sample is None else given.sample or None
    tally = measure_all(given.scenarios or names, sample)
    for line in (*tally.unaccounted, *tally.missed):
        print(line, file=sys.stderr)
    if given.write:
        measured.write_text(table(tally), encoding="utf-8")
    else:
        print(table(tally))


if __name__ == "__main__":
    main()
