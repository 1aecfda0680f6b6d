"""What comes of the logs of some nodes: judged by themselves, and joined to what one replay of all of them says.

What a broker says is held against what it said before, the metadata log and the controllers' requests, and against
nothing that another broker says. So the logs of each can be read elsewhere. Only their order counts: which lines are
told, of those over the limit, and in which order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from highwater.traces.kafka.data_dump import broker_of
from highwater.traces.reports.findings import Doubt
from highwater.traces.requests.lines import Counted, begins
from highwater.traces.requests.verdicts import Verdicts


class SharedNode(Exception):
    """Two parts have logs of one node, which are to be read one after the other."""


@dataclass
class NodeEnds:
    """A node whose logs are read: what was still open, whether its clock is off; ``place`` is where it came first."""

    broker: int
    place: tuple[int, int]
    verdicts: Verdicts
    doubt: Doubt | None
    files: tuple[str, ...]
    gaps: int


@dataclass
class NodesPart:
    """What came of some files, by their numbers: ``ends`` says how many lines were told when each was read."""

    verdicts: Verdicts = field(default_factory=Verdicts)
    ends: dict[int, tuple[int, int]] = field(default_factory=dict)
    nodes: list[NodeEnds] = field(default_factory=list)
    counted: Counted = field(default_factory=Counted)


def in_order(paths: Iterable[Path]) -> list[Path]:
    """Files by when they begin: that is their order, and their numbers. Raises TraceError."""
    return sorted(paths, key=begins)


def divided(paths: Sequence[Path], count: int) -> list[list[int]]:
    """At most so many groups of files, by their numbers, of about the same size: those of a node are in one."""
    sizes: dict[object, int] = defaultdict(int)
    of_node: dict[object, list[int]] = defaultdict(list)
    for number, path in enumerate(paths):
        broker = broker_of(path)
        node: object = path if broker is None else broker
        sizes[node] += path.stat().st_size
        of_node[node].append(number)
    groups: list[list[int]] = [[] for _ in range(min(count, len(sizes)))]
    filled = [0] * len(groups)
    for node in sorted(sizes, key=lambda one: (-sizes[one], of_node[one])):
        least = filled.index(min(filled))
        groups[least] += of_node[node]
        filled[least] += sizes[node]
    return [sorted(group) for group in groups]


@dataclass
class Joined:
    """What the parts come to together, beside the verdicts that they are added to."""

    nodes: list[NodeEnds] = field(default_factory=list)
    counted: Counted = field(default_factory=Counted)


def join(verdicts: Verdicts, parts: Iterable[NodesPart], paths: list[Path]) -> Joined:
    """Add parts to what the controllers' requests came to, in the order of the files. Raises SharedNode."""
    listed, found = list(parts), Joined()
    of_files = sorted((number, part) for part in range(len(listed)) for number in listed[part].ends)
    at = [(0, 0)] * len(listed)
    for number, which in of_files:
        part = listed[which]
        verdicts.tell_more(part.verdicts, at[which], part.ends[number])
        at[which] = part.ends[number]
    for which, part in enumerate(listed):
        # Of a file that was not read to its end.
        rest = part.verdicts
        verdicts.tell_more(rest, at[which], (len(rest.unexplained), len(rest.findings)))
        verdicts.count(rest)
    found.nodes = sorted((n for part in listed for n in part.nodes), key=lambda n: n.place)
    if len({n.broker for n in found.nodes}) < len(found.nodes):
        raise SharedNode
    for node in found.nodes:
        told = node.verdicts
        verdicts.tell_more(told, (0, 0), (len(told.unexplained), len(told.findings)))
        verdicts.count(told)
    order = {path: number for number, path in enumerate(paths)}
    for part in listed:
        found.counted.others += part.counted.others
        found.counted.cut += part.counted.cut
        found.counted.lines += part.counted.lines
    cuts = [part.counted.first_cut for part in listed if part.counted.first_cut is not None]
    found.counted.first_cut = min(cuts, key=lambda cut: order[cut[0]], default=None)
    return found
