"""Compare two Kafkas: in the same states of a scenario the same requests, or the same walks of whole clusters.

The model only chooses states, requests and walks. It has no part in the verdict.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from highwater.checker.base.problems import InputError
from highwater.checker.conform.answers import KafkaAnswers, Numbers
from highwater.checker.conform.bridge import Bridge, NoAnswerError, StoppedError
from highwater.checker.conform.cluster_state import Seen
from highwater.checker.conform.comparison import (
    Block,
    KafkaDifference,
    StatesComparison,
    StatesResult,
)
from highwater.checker.conform.expectation import Observations, observed_now
from highwater.checker.conform.request_file import FORMAT, ExpectedOutcome, RequestFile, answer_text
from highwater.checker.conform.results import (
    KEPT,
    ConformResult,
    Example,
    Key,
    Plain,
    Sample,
    heading,
    lines_of_answer,
    side_by_side,
)
from highwater.checker.conform.walks import (
    NOTHING,
    REFUSAL,
    REPEATED,
    THROWS,
    WALK_FORMAT,
    StepDifference,
    WalkComparison,
    WalkFile,
    WalkResult,
    differing,
)
from highwater.checker.engines.state_graph import Explored
from highwater.model.language.model import Model

_ANY = 1 << 40
"""Above every value of a field that a bridge observes."""
Step = tuple[int, Seen]
"""The bridge's answer to a step of a walk, and the observation after it."""
_BEHIND = "the state, behind a different answer"


class ReleaseComparison(StatesComparison):
    """Compares two Kafkas in each state. ``first`` has the Kafka whose answers are the expected ones."""

    def __init__(self, model: Model, explore: Callable[[Model], Explored], first: Bridge) -> None:
        super().__init__(model, explore)
        self.first = first
        self.layout = Observations((name, -_ANY, _ANY) for name, _ in observed_now(model))
        self.of_first = KafkaAnswers(first, self.setup, self.requests, keeps=True)

    def expected(
        self,
        block: Block,
        answers: tuple[Numbers, Numbers, Numbers],
        result: StatesResult,
    ) -> tuple[Numbers, Numbers, NDArray[np.bool_], Numbers]:
        """The answers of the first Kafka. A request that it cannot be sent is not compared."""
        now, codes, then = self.of_first(block.paths, self.layout.pack)
        sendable = np.array([not r.lacks(self.first.lacking) for r in self.requests])
        return now, codes, np.broadcast_to(sendable[:, None], codes.shape), then

    def example(self, difference: KafkaDifference, bridge: Bridge) -> Example:
        """A difference to report in full, with both answers."""
        operations = [self.requests[n].operation for n in difference.path]
        request = None if difference.request is None else self.requests[difference.request]
        operation = {"name": "failover"} if request is None else request.operation
        sides, outcomes, rows = [f"Kafka {b.version}" for b in (self.first, bridge)], [], []
        answers = [self.explained(b, operations, operation) for b in (self.first, bridge)]
        for one, answer in zip((self.first, bridge), answers, strict=True):
            after = answer["before" if request is None else "after"]
            error = next(name for name, code in one.errors.items() if code == answer["error"])
            outcomes.append(ExpectedOutcome(error, after, answer["answer"]))
            rows.append({"error": error, "answer": answer_text(answer["answer"]), **after})
        shown = [n for n, value in rows[0].items() if n == "error" or value != rows[1].get(n, value)]
        mine, theirs = ({name: row[name] for name in shown} for row in rows)
        kind = request.kind if request else "the state"
        content: Plain = {
            "path": operations,
            "sentences": self.sentences(difference),
            "request": operation if request else None,
            "kind": kind,
            "differs": list(difference.kinds),
            "kafkas": [mine, theirs],
            "records": [answer["records"] for answer in answers],
        }
        lines = [
            *heading(kind, difference.kinds, content["sentences"], sides),
            f"  then: {json.dumps(operation)}" if request else "  after these steps:",
            *side_by_side(mine, theirs, sides),
        ]
        for side, answer in zip(sides, answers, strict=True):
            lines += [line.replace("Kafka", side, 1) for line in lines_of_answer(answer)]
        file = RequestFile(FORMAT, self.setup, operations, operation, outcomes[0], list(difference.kinds))
        return Example(content, lines, file)

    def _note(
        self,
        result: StatesResult,
        key: Key,
        block: Block,
        row: int,
        request: int | None,
        message: str = "",
    ) -> None:
        """Note a difference. A state behind a step that differs is no further one."""
        if request is None and not message and self._is_behind(int(block.states[row])):
            result.not_compared[_BEHIND] += 1
        else:
            super()._note(result, key, block, row, request, message)


class ReleaseWalks(WalkComparison):
    """Compares two Kafkas along walks of whole clusters."""

    def __init__(self, model: Model, explore: Callable[[Model], Explored], first: Bridge) -> None:
        super().__init__(model, explore)
        self.first = first
        self.sides = ["", ""]
        self._walk: tuple[list[Any], str] = [], ""
        self.of_first: dict[tuple[int, ...], StepDifference] = {}
        """By path: the step of the first Kafka at its end."""

    def run(
        self,
        bridge: Bridge,
        selection: Sample,
        progress: Callable[[ConformResult], None],
        stop: Callable[[], str | None],
    ) -> WalkResult:
        """Compare along the walks that ``WalkComparison.run`` takes."""
        self.first.begin(self.describe())
        self.sides = [f"Kafka {one.version}" for one in (self.first, bridge)]
        return super().run(bridge, selection, progress, stop)

    def _after_errors(self, seen: Plain, result: WalkResult) -> None:
        """Compare what a leader does after each error of AlterPartition."""
        mine = self.first.ask({"errors": True})
        for error in sorted(mine.keys() | seen.keys()):
            one, other = mine.get(error, "nothing"), seen.get(error, "nothing")
            if one != other:
                key = f"the answer {error} to AlterPartition", (f"the leader {one} / {other}",)
                result.differences[key] += 1
                result.examples[key] = StepDifference((), 0, 0, {}, f"{one} / {other}")

    def _walked(
        self, bridge: Bridge, paths: Iterator[list[int]], stop: Callable[[], str | None], result: WalkResult
    ) -> Iterator[tuple[list[int], list[Any]]]:
        for path, walk in super()._walked(bridge, paths, stop, result):
            try:
                answer = self.first.ask({"walk": [[self._instances[step] for step in path]]})
            except (NoAnswerError, StoppedError) as wrong:
                self._ended(wrong, [path], result)
                return
            numbers, seen = answer["walks"][0], answer["seen"]
            steps = zip(numbers[1::2], (seen[n] for n in numbers[2::2]), strict=True)
            self._walk = [seen[numbers[0]], *steps], answer["thrown"].get("0", "")
            yield path, walk

    def _compare(self, path: list[int], walk: list[Any], result: WalkResult) -> None:
        """Compare the two walks of a path up to their first difference, or to a step that neither Kafka takes."""
        result.paths += 1
        (first, thrown), at = self._walk, 0
        if first[0] != walk[0]:
            raise InputError("diff: the two clusters do not begin in the same state")
        self._reached.add(0)
        for number, step in enumerate(path[: max(len(first), len(walk)) - 1], 1):
            one, other = (w[number] if number < len(w) else None for w in (first, walk))
            state, instance = self._targets[step], self._instances[step]
            name = self.model.instances[instance].action.name
            if one == other and one is not None and (one[0] == 0 or one[0] <= REFUSAL):
                at, result.steps = state, result.steps + 1
                self._taken.add(step)
                self._reached.add(state)
                continue
            new = step not in self._blocked
            self._blocked.add(step)
            if one == other:
                result.not_compared[f"{name}: neither Kafka takes it"] += new
            elif new:
                fields = self._fields(one, other)
                steps = tuple(self._instances[s] for s in path[:number])
                both = [
                    StepDifference(steps, state, w[0] if w else NOTHING, w[1] if w else {}, message, at)
                    for w, message in (
                        (one, thrown or _outcome(one)),
                        (other, self._thrown or _outcome(other)),
                    )
                ]
                result.differences[name, fields] += 1
                self.of_first[steps] = both[0]
                old = result.examples.get((name, fields))
                if old is None or len(old.path) > len(steps):
                    result.examples[name, fields] = both[1]
                if len(more := result.more.setdefault((name, fields), [])) < KEPT:
                    more.append(both[1])
            return

    def sides_of(self, result: ConformResult, key: Key) -> list[tuple[StepDifference, StepDifference]]:
        """The differences of a kind as steps of the first and of the second Kafka."""
        return [(self.of_first[one.path], one) for one in result.more.get(key, [])]

    @staticmethod
    def _fields(one: Step | None, other: Step | None) -> tuple[str, ...]:
        """The names of what differs after a step."""
        if one is None or other is None or _outcome(one) != _outcome(other):
            return (f"{_outcome(one)} / {_outcome(other)}",)
        return differing(one[1], other[1])

    def _example(self, key: Key, found: StepDifference) -> Example:
        instances, first = self.model.instances, self.of_first.get(found.path, found)
        shown = [n for n, value in first.seen.items() if value != found.seen.get(n, value)]
        rows: list[Plain] = [
            {"outcome": one.message, **{n: one.seen[n] for n in shown}} for one in (first, found)
        ]
        content: Plain = {
            "step": key[0],
            "differs": list(key[1]),
            "sentences": [instances[n].sentence or str(instances[n]) for n in found.path],
            "path": [self.operations[n] for n in found.path],
            "kafkas": rows,
        }
        lines = [*heading(key[0], key[1], content["sentences"], self.sides), "  after these steps:"]
        lines += side_by_side(rows[0], rows[1], self.sides)
        return Example(content, lines, WalkFile(WALK_FORMAT, self.setup, content["path"], first.seen))


def _outcome(walked: Step | None) -> str:
    """The outcome of a step, in a word."""
    if walked is None:
        return "not reached"
    code = walked[0]
    if code == 0 or code <= REFUSAL:
        return "taken" if not code else f"refused with {REFUSAL - code}"
    return {NOTHING: "not taken", REPEATED: "repeated", THROWS: "throws"}.get(code, f"refused ({code})")
