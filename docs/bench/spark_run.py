"""One search on Spark, measured from inside: ``python -m docs.bench.spark_run``, a run a process.

What is asked comes as JSON in the first argument, what was measured goes out as JSON. A disturbance is done to the
executors of a ``local-cluster`` in the middle of the search: one is killed, slowed down, or given most of the buckets.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from docs.bench.figures import afresh
from docs.bench.whole import tree
from highwater.checker.asking import request, scenarios
from highwater.checker.asking.search import Progress, SearchOptions
from highwater.checker.engines.native.text.kernels import WORDS
from highwater.checker.engines.spark import session
from highwater.checker.engines.spark.options import SparkOptions
from highwater.checker.engines.spark.search import Exploration, exploration

KILLED, SLOWED, SKEWED = "killed", "slowed", "skewed"
_TICK = os.sysconf("SC_CLK_TCK")
_PAUSE_SECONDS = 0.05


@dataclass(frozen=True)
class Asked:
    """A search: scenario and settings, the master, its buckets, which levels are the cluster's, what is done to it."""

    scenario: str
    settings: tuple[str, ...]
    master: str = "local[2]"
    buckets: int | None = None
    small: int = 200_000
    disturbance: str | None = None
    at_states: int = 0
    """The disturbance comes when so many states were found."""


def run(asked: Asked) -> dict[str, Any]:
    """The measurement of a search by a process started afresh; RuntimeError where it fails."""
    return afresh("spark_run", json.dumps(asdict(asked)))


def search(asked: Asked) -> dict[str, Any]:
    """Search in this process, and say what it took."""
    chosen = request.Request.of(scenarios.find(asked.scenario), request.Overrides.parse(asked.settings))
    model, options = chosen.model(), SearchOptions(symmetry=chosen.symmetry, deadlock=chosen.deadlock)
    disturb = Disturbance(asked)
    if asked.disturbance == SKEWED:
        skew(session.session(asked.master), asked)
    with tempfile.TemporaryDirectory(prefix="highwater-levels-") as levels:
        spark = SparkOptions(asked.master, levels, small=asked.small, buckets=asked.buckets)
        with exploration(model, options, disturb.progress, spark) as found:
            result = found.explore()
            return {
                "states": result.distinct_states,
                "generated": result.generated_states,
                "depth": result.depth,
                "seconds": result.seconds,
                "preparation": result.preparation_seconds,
                **measured(found),
                "processor": processor_seconds(),
            }


def measured(found: Exploration) -> dict[str, Any]:
    """What an exploration that has ended says of its levels and of the work of its tasks."""
    work, levels, ended = found.cluster.work, found.levels, [level.totals.seconds for level in found.levels]
    return {
        "levels": work.levels,
        "buckets": found.run.buckets,
        "level_seconds": [
            ended[level.number] - ended[level.number - 1]
            for level in levels[1:]
            if any(part.bucket is not None for part in level.parts)
        ],
        "largest": max(level.size for level in levels),
        "row": (WORDS + found.run.words) * 8,
        "sent": work.sent,
        "caught_up": work.caught_up,
        "written": sum(
            (found.checkpoint.folder(level.number) / part.file).stat().st_size
            for level in levels
            for part in level.parts
        ),
        "tables": work.tables,
        "resident": work.resident,
        "parts": work.seconds,
    }


def processor_seconds() -> dict[str, float]:
    """Seconds of processor time of this process and of all below it, ended ones too, by what they are."""
    spent: dict[str, float] = {}
    for pid in set(tree(os.getpid())):
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        name = "driver" if pid == os.getpid() else text[text.index("(") + 1 : text.rindex(")")]
        numbers = text[text.rindex(")") + 2 :].split()[11:15]
        # Children that have ended count with whoever waited for them; the driver has waited for none of these.
        ticks = sum(map(int, numbers[:2] if name == "driver" else numbers))
        spent[name] = spent.get(name, 0.0) + ticks / _TICK
    return spent


def executors() -> list[int]:
    """The processes of the executors of a ``local-cluster``."""
    found = []
    for pid in set(tree(os.getpid())):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"CoarseGrainedExecutorBackend" in line and line.split(b"\0")[0].endswith(b"java"):
            found.append(pid)
    return sorted(found)


def skew(running: session.SparkConnection, asked: Asked) -> None:
    """Give one task all buckets but the last one, and another that one, as a bad distribution would."""
    assert asked.buckets is not None
    shares = [list(range(asked.buckets - 1)), [asked.buckets - 1]]
    held = running.context.parallelize(shares, 2).flatMap(lambda share: share).cache()
    held.count()
    running._places[asked.buckets] = held


class Disturbance:
    """Does to one executor what is asked, once enough states were found; a search tells it of its progress."""

    def __init__(self, asked: Asked) -> None:
        self._asked, self._done = asked, asked.disturbance not in (KILLED, SLOWED)

    def progress(self, progress: Progress) -> None:
        """Called again and again by the search."""
        if not self._done and progress.distinct_states >= self._asked.at_states:
            self._done = True
            victim = executors()[0]
            if self._asked.disturbance == KILLED:
                os.kill(victim, signal.SIGKILL)
            else:
                threading.Thread(target=half_speed, args=(victim,), daemon=True).start()


def half_speed(victim: int, going: Callable[[], bool] = lambda: True) -> None:
    """Let a process and all below it run half of the time, until it ends."""
    try:
        while going():
            for sign in (signal.SIGSTOP, signal.SIGCONT):
                for pid in tree(victim):
                    os.kill(pid, sign)
                time.sleep(_PAUSE_SECONDS)
    except ProcessLookupError:
        pass
    finally:
        for pid in tree(victim):
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                continue


if __name__ == "__main__":
    plain = json.loads(sys.argv[1])
    print(json.dumps(search(Asked(**{**plain, "settings": tuple(plain["settings"])}))))
    session.close()
