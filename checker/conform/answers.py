"""Kafka's answers to a list of requests, in the states at the ends of paths. Each path is taken once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from highwater.checker.conform.bridge import Bridge, NoAnswerError, StoppedError
from highwater.checker.conform.kafka_request import KafkaRequest
from highwater.checker.conform.results import Plain

Numbers = NDArray[np.int64]
Path = Sequence[int]
"""The numbers of the requests that lead to a state."""

Pack = Callable[[Sequence[str], Sequence[Sequence[int]]], Numbers]
"""Packs observations, each a row of values with these names, into words."""

_ANSWERS = 12_000
"""The most answers (states times requests) in one line of the bridge."""
_MOST_AT_ONCE = 64


@dataclass(frozen=True)
class _Line:
    """A line of the bridge: its distinct observations, and for each path the answers, which refer to them."""

    names: Sequence[str]
    seen: Sequence[Sequence[int]]
    """Each observation as values by ``names``; without values if Kafka threw."""
    rows: Numbers


class KafkaAnswers:
    """The answers of a Kafka. ``keeps``: they are kept by path, so that no path is taken twice.

    Answers to several lists of requests are several objects, which can share a bridge.
    """

    def __init__(
        self, bridge: Bridge, setup: Plain, requests: Sequence[KafkaRequest], keeps: bool = False
    ) -> None:
        self.bridge, self.keeps = bridge, keeps
        self.scenario = {"scenario": setup, "operations": [request.operation for request in requests]}
        self.at_once = max(1, min(_MOST_AT_ONCE, _ANSWERS // len(requests)))
        self._kept: dict[Path, tuple[_Line, int]] = {}

    def __call__(
        self,
        paths: Sequence[Path],
        pack: Pack,
        stop: Callable[[], str | None] = lambda: None,
    ) -> tuple[Numbers, Numbers, Numbers]:
        """Three arrays about the states at the ends of these paths.

        - The packed observation of each state: (states, words). ``pack`` packs observations.
        - The answer to each request in each state: (requests, states).
        - The packed observation after each request: (requests, states, words).

        Raises NoAnswerError with the number of the path in ``paths``, and StoppedError if ``stop`` returns a reason.
        """
        keys = [tuple(path) for path in paths]
        new = [key for key in dict.fromkeys(keys) if key not in self._kept]
        chunks = [new[i : i + self.at_once] for i in range(0, len(new), self.at_once)]
        why: list[str] = []

        def questions() -> Iterator[object]:
            for chunk in chunks:
                why.extend(filter(None, [stop()]))
                if why:
                    return
                yield {"try": chunk}

        if chunks and self.bridge.scenario is not self.scenario:
            self.bridge.begin(self.scenario)
        answers = self.bridge.answered(questions())
        for chunk in chunks:
            try:
                answer = next(answers, None)
            except NoAnswerError as wrong:
                raise NoAnswerError(keys.index(chunk[wrong.path]), wrong.operation, wrong.at) from None
            if answer is None:
                raise StoppedError(why[0])
            rows = np.array(answer["answers"], dtype=np.int64).reshape(len(chunk), -1)
            line = _Line(answer["fields"], answer["seen"], rows)
            self._kept.update((key, (line, row)) for row, key in enumerate(chunk))
        found = self._arrays([self._kept[key] for key in keys], pack)
        if not self.keeps:
            self._kept.clear()
        return found

    @staticmethod
    def _arrays(places: Sequence[tuple[_Line, int]], pack: Pack) -> tuple[Numbers, Numbers, Numbers]:
        lines = {id(line): line for line, _ in places}
        starts, packed, end = dict[int, int](), list[Numbers](), 0
        for key, line in lines.items():
            starts[key] = end
            packed.append(pack(line.names, line.seen))
            end += len(line.seen)
        seen = np.concatenate(packed)
        rows = np.stack([line.rows[row] for line, row in places])
        first = np.array([starts[id(line)] for line, _ in places])[:, None]
        after = rows[:, 2::2] + first
        return seen[rows[:, 0] + first[:, 0]], rows[:, 1::2].T, seen[after].swapaxes(0, 1)

    def one(self, path: Path, request: int) -> tuple[int, dict[str, int], dict[str, int]]:
        """The kept answer to a request at the end of a path, and the observations before and after it."""
        line, row = self._kept[tuple(path)]
        before, answers = line.rows[row, 0], line.rows[row, 1 + 2 * request :]
        one, other = (dict(zip(line.names, line.seen[n], strict=False)) for n in (before, answers[1]))
        return int(answers[0]), one, other
