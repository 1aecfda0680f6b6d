"""Random runs of one partition's replicas, with the exact offsets that each election loses."""

from __future__ import annotations

import random
from pathlib import Path

from tests.traces.broker_lines import Made

Record = tuple[int, int]
"""Leader epoch and unique number of a record."""


class Run:
    """Three replicas with min ISR 1. ``lost`` lists the ranges of committed offsets that elections lost, in order."""

    def __init__(self, folder: Path, seed: int, unclean: bool) -> None:
        self.rng, self.unclean = random.Random(seed), unclean
        self.made = Made(folder, min_isr=1)
        self.logs: dict[int, list[Record]] = {b: [] for b in range(3)}
        self.hwms = dict.fromkeys(range(3), 0)
        self.up = {0, 1, 2}
        self.known: dict[int, int] = {}
        self.fetched: set[int] = set()
        self.start = 0
        self.committed: list[Record] = []
        self.lost: list[tuple[int, int]] = []
        self.count = 0
        for broker in range(3):
            self.made.restarted(broker, 0)
        self.replay(range(3))

    @property
    def leader(self) -> int | None:
        assert self.made.state is not None
        leader = self.made.state.leader
        return leader if leader in self.up else None

    @property
    def isr(self) -> tuple[int, ...]:
        assert self.made.state is not None
        return self.made.state.isr

    def replay(self, brokers: range | list[int]) -> None:
        """Each live broker replays the new leader epoch: it leads or follows."""
        for b in sorted(brokers, key=lambda b: b != self.leader):
            if b not in self.up:
                continue
            if b != self.leader:
                self.made.follows(b, len(self.logs[b]), self.hwms[b])
                continue
            self.made.leads(b, len(self.logs[b]), self.hwms[b])
            self.known, self.fetched, self.start = {}, set(), len(self.logs[b])
            pairs = enumerate(zip(self.committed, self.logs[b], strict=False))
            kept = next((i for i, (a, c) in pairs if a != c), min(len(self.committed), len(self.logs[b])))
            if kept < len(self.committed):
                self.lost.append((kept, len(self.committed)))
                del self.committed[kept:]
            self.commit(b)

    def commit(self, leader: int) -> None:
        if self.hwms[leader] > len(self.committed):
            self.committed = self.logs[leader][: self.hwms[leader]]

    def step(self) -> None:
        action = self.rng.choice(
            ("produce", "produce", "fetch", "fetch", "fetch", "fetch", "shrink", "crash", "start")
        )
        broker = self.rng.randrange(3)
        if action == "produce" and self.leader is not None:
            self.produce(self.leader)
        elif action == "fetch" and self.leader is not None and broker in self.up - {self.leader}:
            self.fetch(broker, self.leader)
        elif action == "shrink" and self.leader not in (None, broker) and broker in self.isr:
            self.made.alter(isr=tuple(b for b in self.isr if b != broker))
            self.told()
        elif action == "crash" and broker in self.up and self.rng.random() < 0.5:
            self.crash(broker)
        elif action == "start" and broker not in self.up:
            self.begin(broker)

    def told(self) -> None:
        assert self.leader is not None
        if self.rng.random() < 0.5:
            self.made.isr(self.leader)
        else:
            self.made.still(self.leader, "leader", self.hwms[self.leader])
        self.advance(self.leader)

    def produce(self, leader: int) -> None:
        assert self.made.state is not None
        for _ in range(self.rng.randint(1, 5)):
            self.count += 1
            self.logs[leader].append((self.made.state.leader_epoch, self.count))
        self.advance(leader)

    def advance(self, leader: int) -> None:
        ends = [len(self.logs[leader]), *(self.known.get(b, -1) for b in self.isr if b != leader)]
        if min(ends) > self.hwms[leader]:
            self.made.hwm(leader, self.hwms[leader], min(ends))
            self.hwms[leader] = min(ends)
            self.commit(leader)

    def fetch(self, broker: int, leader: int) -> None:
        log, source = self.logs[broker], self.logs[leader]
        pairs = enumerate(zip(log, source, strict=False))
        same = next((i for i, (a, b) in pairs if a != b), min(len(log), len(source)))
        if same < len(log):
            self.made.truncating(broker, leader, same)
            del log[same:]
            self.hwms[broker] = min(self.hwms[broker], same)
        self.known[broker] = len(log)
        expand = broker not in self.isr and len(log) >= max(self.hwms[leader], self.start)
        if expand:
            self.made.expand(leader, broker)
        self.advance(leader)
        self.made.leo(leader, broker, len(log))
        if expand:
            self.made.alter(isr=(*self.isr, broker))
            self.told()
        log += source[len(log) : len(log) + self.rng.randint(0, 6)]
        self.hwms[broker] = max(self.hwms[broker], min(self.hwms[leader], len(log)))

    def crash(self, broker: int) -> None:
        led = self.leader == broker
        self.up.discard(broker)
        rest = tuple(b for b in self.isr if b != broker) or self.isr
        if led:
            electable = [b for b in rest if b in self.up]
            self.made.alter(isr=rest, leader=electable[0] if electable else None)
            self.elect_uncleanly()
            self.replay(range(3))
        elif broker in self.isr and self.leader is not None:
            self.made.alter(isr=rest)
            self.told()

    def begin(self, broker: int) -> None:
        self.up.add(broker)
        self.made.restarted(broker, self.hwms[broker])
        if self.leader is None and broker in self.isr:
            self.made.alter(leader=broker, isr=(broker,))
            self.replay(range(3))
        elif self.elect_uncleanly():
            self.replay(range(3))
        else:
            self.replay([broker])

    def elect_uncleanly(self) -> bool:
        """Elect a random live broker if nobody leads and unclean elections are on. Three of ten calls elect nobody."""
        if not self.unclean or self.leader is not None or not self.up or self.rng.random() < 0.3:
            return False
        chosen = self.rng.choice(sorted(self.up))
        self.made.alter(leader=chosen, isr=(chosen,))
        return True
