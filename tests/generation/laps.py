"""Long request logs, concatenated from short runs ("laps") of the model.

A lap ends quiescent: all brokers run with equal logs and current metadata, the first one leads, the ISR is
full, and nothing is in flight. With offsets and epochs counted from there, that state equals the model's
initial state, so another lap can follow. Each partition has its own brokers.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from highwater.model.language.interpreter import Interpreter
from highwater.traces.kafka.codec import uuid_text
from tests.generation.model_runs import AFTER, STEP_MS, Place, Run, Telling, Walk, idle, model
from tests.generation.requests import Partition, RequestLogs

BROKERS, RECORDS = 3, 4
EVENTS = {"fencings": 1, "crashes": 1, "losses": 1, "shrinks": 2, "elections": 1, "controlled_shutdowns": 1}
"""Budgets of faults in an eventful lap."""
LENGTH, CLOSING = 50, 150
"""Random steps of a lap, and the most steps until it is quiescent."""
QUIET_LAPS, EVENTFUL_LAPS = 40, 24
"""Numbers of laps of each kind."""
EVENTFUL = 0.05
"""The share of eventful laps: most of a log is fetches of a healthy cluster."""
LARGEST_BATCH = 5
_CLOSES = frozenset(
    {
        "send_fetch", "answer_fetch", "take_fetch_answer", "refuse_fetch", "acknowledge", "replay_metadata",
        "start_broker", "unfence_broker", "finish_shutdown", "propose_expand", "handle_alter_partition",
        "take_alter_answer", "retry_alter_partition", "elect_preferred_leader",
    }
)  # fmt: skip
"""Actions that lead to a quiescent state."""


@dataclass
class Laps:
    """Quiescent laps: ``quiet`` ones have only writes and fetches, ``eventful`` ones also faults."""

    quiet: list[Run]
    eventful: list[Run]

    share: float = EVENTFUL
    """The probability that a drawn lap is eventful."""

    def draw(self, chosen: random.Random) -> Run:
        return chosen.choice(self.eventful if chosen.random() < self.share else self.quiet)


def laps(quiet: int = QUIET_LAPS, eventful: int = EVENTFUL_LAPS) -> Laps:
    """The given numbers of laps of each kind, always the same ones."""
    # Kafka lacks this rule, and without it some runs violate B7.
    rules = ["proposal_outlives_known_metadata"]
    well, not_well = model((), rules, records=RECORDS), model((), rules, records=RECORDS, **EVENTS)
    return Laps(
        list(itertools.islice(_quiet_runs(well), quiet)),
        list(itertools.islice(_quiet_runs(not_well), eventful)),
    )


def _quiet_runs(interpreter: Interpreter) -> Iterator[Run]:
    for seed in itertools.count():
        walk = Walk(interpreter, seed, prompt=True)
        for _ in range(LENGTH):
            walk.step()
        for _ in range(CLOSING):
            if _is_quiet(walk.run[-1][1]):
                yield walk.run
                break
            if not walk.step(_CLOSES):
                break


def _is_quiet(state: dict[str, Any]) -> bool:
    partition, brokers = state["partition"], state["brokers"]
    leader = brokers[0]
    names = ("leader", "leader_epoch", "partition_epoch", "isr")
    pending = ("fetch_requests", "fetch_responses", "alter_requests", "alter_responses")
    return (
        partition["leader"] == 0
        and len(partition["isr"]) == BROKERS
        and partition["leader_recovery_state"] == "RECOVERED"
        and not partition["elr"]
        and partition["last_known_leader"] is None
        and all(b["status"] == "RUNNING" and b["proposed"] is None for b in brokers)
        and all(b["log"] == leader["log"] for b in brokers)
        and all(b["view"][name] == partition[name] for b in brokers for name in names)
        and leader["hwm"] == len(leader["log"])
        and not any(r["fenced"] or r["in_controlled_shutdown"] for r in state["registrations"])
        and all(b["epoch"] == r["epoch"] for b, r in zip(brokers, state["registrations"], strict=True))
        and all(b["view"]["epochs"] == [r["epoch"] for r in state["registrations"]] for b in brokers)
        and not any(message is not None for name in pending for message in state[name])
        and "PENDING" not in state["writes"]
    )


class _Partition:
    """A partition that runs one lap after the other."""

    def __init__(
        self, made: RequestLogs, number: int, known: Laps, seed: int, epochs: dict[int, int]
    ) -> None:
        self._chosen, self._laps, self._made = random.Random(seed), known, made
        brokers = range(1 + BROKERS * number, 1 + BROKERS * (number + 1))
        of = Partition(f"t{number}", uuid_text((1000 + number).to_bytes(16)), number=0)
        self.brokers, self.place = brokers, Place(of, brokers)
        self._telling = Telling(made, self.place, {(slot, 0): epochs[b] for slot, b in enumerate(brokers)})
        self._states: Iterator[tuple[Any, Any]] = iter(())
        self._run: Run = []

    def create(self) -> None:
        self._made.create(self.place.of, self.brokers, self.brokers, 2)

    def step(self) -> None:
        """Take the next step; start another lap if this one is over."""
        found = next(self._states, None)
        while found is None:
            self._go_on()
            found = next(self._states, None)
        (_, before), (step, after) = found
        self._telling.tell(step, before, after)

    def _go_on(self) -> None:
        place, ended = self.place, self._run[-1][1] if self._run else None
        sizes = tuple(self._chosen.randint(1, LARGEST_BATCH) for _ in range(RECORDS))
        self.place = replace(place, sizes=sizes)
        epochs = self._telling.epochs
        if ended is not None:
            log, partition = ended["brokers"][0]["log"], ended["partition"]
            self.place = replace(
                self.place,
                offset=place.at(len(log)),
                last_epoch=place.epoch(log[-1]["epoch"]) if log else place.last_epoch,
                leader_epoch=place.leader_epoch + partition["leader_epoch"],
                partition_epoch=place.partition_epoch + partition["partition_epoch"],
            )
            lives = [r["epoch"] for r in ended["registrations"]]
            epochs = {(slot, 0): epochs[(slot, life)] for slot, life in enumerate(lives)}
        self._telling = Telling(self._made, self.place, epochs)
        self._run = self._laps.draw(self._chosen)
        self._states = itertools.pairwise(self._run)


def write_runs(
    directory: Path, fetches: int, partitions: int = 4, seed: int = 0, known: Laps | None = None
) -> int:
    """Write a cluster's logs with ``fetches`` lines of fetches from laps; returns the number of all lines."""
    known = laps() if known is None else known
    with RequestLogs(directory) as made:
        brokers = range(1, 1 + BROKERS * partitions)
        idle(made, brokers)  # so that the logs begin before the partitions were created
        epochs = made.start(brokers)
        living = [_Partition(made, number, known, seed + number, epochs) for number in range(partitions)]
        made.now += STEP_MS
        for one in living:
            one.create()
        while made.counts[1] < fetches:
            for one in living:
                made.now += max(1, STEP_MS // partitions - 5)
                one.step()
        for _ in range(AFTER):
            made.now += 300
            idle(made, brokers)
        return sum(made.counts.values())
