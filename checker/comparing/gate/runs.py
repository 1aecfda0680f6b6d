"""Running entries on all cores, in an order, within a budget, with a line of progress.

Each core has a process that runs one entry after the other: most of an entry's time is compiling, which one thread
does. Only names go to it and results come back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from highwater.checker.base.memory import available_memory
from highwater.checker.base.processes import Pool, ProcessEnded, Say, cores
from highwater.checker.comparing.gate import facts
from highwater.checker.comparing.gate.entries import GateEntry
from highwater.checker.comparing.gate.facts import Ran
from highwater.checker.comparing.models.revisions import Image
from highwater.checker.running.progress import LiveLine

_SAID = {"run": "run", "image": "of the other revision run", "fingerprint": "traced"}


class GateInterrupted(Exception):
    """Ctrl-C, after which what was found so far is still told."""


def run_all(
    entries: Sequence[GateEntry],
    *,
    processes: int | None = None,
    budget: float | None = None,
    quiet: bool = False,
) -> Iterator[tuple[GateEntry, Ran | None]]:
    """Run entries in their order and give each with its result; None for those that the budget left no time for.

    Raises Interrupted where Ctrl-C ended it.
    """
    deadline = None if budget is None else time.perf_counter() + budget
    yield from _all("run", entries, processes, deadline, quiet)


def run_images(
    images: Mapping[tuple[str, str], Image],
    entries: Sequence[GateEntry],
    *,
    processes: int | None = None,
    budget: float | None = None,
    quiet: bool = False,
) -> Iterator[tuple[GateEntry, Ran | None]]:
    """Run entries as another revision has them, from their images."""
    deadline = None if budget is None else time.perf_counter() + budget
    yield from _all("image", entries, processes, deadline, quiet, images)


def fingerprints(
    entries: Sequence[GateEntry], *, processes: int | None = None, quiet: bool = False
) -> dict[tuple[str, str], str | None]:
    """The fingerprint of each entry's model."""
    return {e.key: found for e, found in _all("fingerprint", entries, processes, None, quiet)}


def _all(
    word: str,
    entries: Sequence[GateEntry],
    processes: int | None,
    deadline: float | None,
    quiet: bool,
    images: Mapping[tuple[str, str], Image] | None = None,
) -> Iterator[tuple[GateEntry, Any]]:
    count = min(len(entries), processes or cores())
    begun = done = 0

    def jobs() -> Iterator[tuple[GateEntry, float | None, Any]]:
        """Entries that are to be run, each with the seconds that are left for it."""
        nonlocal begun
        for entry in entries:
            seconds = None if deadline is None else deadline - time.perf_counter()
            if seconds is not None and seconds <= 0:
                return
            begun += 1
            yield entry, seconds, images and images[entry.key]

    live = LiveLine(quiet=quiet)
    with Pool(partial(_run, word, int(available_memory() * 0.8) // max(1, count))) as pool:
        try:
            for news in pool.run(jobs(), count, every=0.5):
                under_way = ", ".join(entry.name for entry, *_ in pool.under_way())
                live(f"gate: {done} of {len(entries)} {_SAID[word]}", under_way)
                if news is None:
                    continue
                done += 1
                entry, found = news.job[0], news.said
                if isinstance(found, ProcessEnded):
                    found = Ran(error="the process that ran it was ended, perhaps for its memory")
                elif isinstance(found, BaseException):
                    raise found
                yield entry, found
            yield from ((entry, None) for entry in entries[begun:])
        except KeyboardInterrupt:
            raise GateInterrupted from None
        finally:
            live.end()


def _run(word: str, memory_bytes: int, job: tuple[GateEntry, float | None, Any], say: Say) -> Any:
    entry, seconds, image = job
    if word == "fingerprint":
        return facts.fingerprint(entry)
    if word == "image":
        return facts.run_image(image, seconds, memory_bytes)
    return facts.run(entry, seconds, memory_bytes)
