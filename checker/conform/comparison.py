"""Compare a Kafka in every state of a scenario: the state, and the answer to every request, as arrays.

``StatesComparison`` has what does not depend on the other side, which is the model (``KafkaComparison``), or another
Kafka (``release_comparison.py``).
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from highwater.checker.base.problems import InputError, InternalError
from highwater.checker.base.text import columns, paragraph, width
from highwater.checker.conform.answers import KafkaAnswers
from highwater.checker.conform.bridge import THROWS, Bridge, NoAnswerError, StoppedError
from highwater.checker.conform.expectation import ExpectedAnswers, Numbers, Observations, Traced, trace
from highwater.checker.conform.kafka_request import ANSWER_FIELDS, NO_ACTION, KafkaRequest, instance_key
from highwater.checker.conform.request_file import FORMAT, ExpectedOutcome, RequestFile, answer_text
from highwater.checker.conform.requests import requests_of, setup_of
from highwater.checker.conform.results import (
    KAFKA_THROWS,
    KEPT,
    NO_ANSWER,
    ConformResult,
    Example,
    Key,
    Plain,
    Sample,
    by_fields,
    heading,
    lines_of_answer,
    side_by_side,
)
from highwater.checker.conform.walks import without_places
from highwater.checker.engines.state_graph import Explored
from highwater.model.language.graph import values_of
from highwater.model.language.interpreter import interpreter_of
from highwater.model.language.model import Model
from highwater.model.replication.controller import Controller
from highwater.model.replication.controller.types import Error

_STATES_AT_ONCE = 2048
_THROWN = -1
"""In place of the bits of what differs: Kafka throws."""
NO_SUCH_ERROR = -400
_SAYS = 1000
"""The bridge sends an answer as its error, and the bits of its other fields times this number."""
_ACTIONS, _NO_ACTION, _TWO_EVENTS, _TOGETHER = (
    "requests that stand for an action of the model, with Kafka's answers",
    "other requests",
    "heartbeats that also report a failed directory, by their other flags",
    "of these, Kafka decides both events on the state before, as in neither order",
)
"""Titles of the groups of compared requests."""


@dataclass(frozen=True)
class KafkaDifference:
    """A request that the model and Kafka answer differently, or a state in which they differ before any request."""

    state: int
    """The number of the state in the graph."""
    path: tuple[int, ...]
    """The numbers of the requests that lead to the state."""
    request: int | None
    """The number of the request; None if the states differ."""
    kinds: tuple[str, ...]
    """The parts that differ: ``error``, ``answer``, and names of observed fields without their index in brackets."""
    message: str = ""
    """Where Kafka's code is, if it does not answer."""


@dataclass
class StatesResult(ConformResult):
    """The counts and differences of a comparison in every state."""

    compared_with = "Kafka"
    unit, whole = "request", "state"
    cut: int = 0
    """Transitions of the model that cross a bound of the scenario."""
    requests: int = 0
    outcomes: Counter[tuple[str, str, bool]] = field(default_factory=Counter)
    """Numbers of compared requests, by kind, expected error, and True if the request changes something."""
    decided_together: Counter[Key] = field(default_factory=Counter)
    """Numbers of requests with two events for which Kafka decides both events on the state before the request.

    Their result fits neither order of the events. The keys are the request's kind and the fields that differ from the
    result of the first order.
    """

    @property
    def size(self) -> int:
        """The number of compared requests."""
        return self.requests

    @property
    def compared(self) -> str:
        """The counts, as text for the headline."""
        rate = self.requests / self.seconds if self.seconds else 0
        return f"{self.transitions:,} transitions, {self.requests:,} requests ({rate:,.0f}/s)"

    def counts(self) -> Plain:
        """The counts of this kind of comparison, for the JSON."""
        return {
            "steps_cut_at_a_bound": self.cut,
            "requests": self.requests,
            "outcomes": [
                {"request": kind, "error": error, "changes": changes, "count": count}
                for (kind, error, changes), count in sorted(self.outcomes.items())
            ],
            "decided_together": by_fields(self.unit, sorted(self.decided_together.items())),
        }

    def lines(self) -> Iterator[str]:
        """The lines of the summary before the differences."""
        kinds: dict[str, Counter[str]] = {}
        for (kind, error, changes), number in self.outcomes.items():
            outcome = error if error != "NONE" else "carried out" if changes else "changes nothing"
            kinds.setdefault(kind, Counter())[outcome] += number
        groups: dict[str, list[tuple[str, str]]] = {
            title: [] for title in (_ACTIONS, _NO_ACTION, _TWO_EVENTS)
        }
        for kind, outcomes in sorted(kinds.items()):
            parts = ", ".join(f"{outcome} {number:,}" for outcome, number in outcomes.most_common())
            name, _, more = kind.partition(" ")
            title = _ACTIONS if not more else _NO_ACTION if more == NO_ACTION else _TWO_EVENTS
            groups[title].append((_flags(more) if title is _TWO_EVENTS else name, parts))
        together = Counter[str]()
        for (kind, _), number in self.decided_together.items():
            together[_flags(kind.partition(" ")[2])] += number
        groups[_TOGETHER] = [(flags, f"{number:,}") for flags, number in together.most_common()]
        for title, rows in groups.items():
            if rows:
                yield paragraph(f"  {title}:")
                yield from columns(rows, "    ", width())
        if self.cut:
            yield f"  transitions that cross a bound of the scenario, compared too: {self.cut:,}"
        if left := self.not_compared.total():
            yield paragraph(
                f"  not compared: {left:,} requests that cannot be sent, or that the model does not describe"
            )


def _flags(text: str) -> str:
    return text.removesuffix("losesDirectory").rstrip("+") or "none"


def answer_parts(answer: int) -> tuple[int, int]:
    """The error code of an answer of the bridge, and the bits of its other fields."""
    rest, error = divmod(answer + _SAYS // 2, _SAYS)
    return error - _SAYS // 2, rest


def _error(answers: Numbers) -> Numbers:
    """The error codes of answers."""
    codes: Numbers = (answers + _SAYS // 2) % _SAYS - _SAYS // 2
    return codes


class Block(NamedTuple):
    """Some states, by number, and the path to each."""

    states: Numbers
    paths: list[list[int]]


class StatesComparison(ABC):
    """Compares a Kafka in each state of a scenario's explored graph, and its answers to all requests there.

    Raises InputError if the model has an action instance without a corresponding request of Kafka's controller.
    """

    layout: Observations
    """The layout of the packed observations."""
    answers: KafkaAnswers | None = None
    """Kafka's answers, some kept from an earlier comparison; None: none are kept."""

    def __init__(self, model: Model, explore: Callable[[Model], Explored]) -> None:
        self.model, protocol = model, model.protocol
        self.requests: list[KafkaRequest] = requests_of(protocol)
        assert isinstance(protocol, Controller)
        self.setup = setup_of(protocol)
        known = {request.action: number for number, request in enumerate(self.requests) if request.action}
        for instance in model.instances:
            if instance_key(instance.action.name, dict(instance.parameters)) not in known:
                raise InputError(
                    f"conform: {instance} stands for no request of Kafka's controller under these rules"
                )
        self.request_of = np.array(
            [known[instance_key(i.action.name, dict(i.parameters))] for i in model.instances], dtype=np.int64
        )
        self.graph = explore(model)
        kinds = [request.kind for request in self.requests]
        self.kinds = list(dict.fromkeys(kinds))
        self._kind_of = np.array([self.kinds.index(kind) for kind in kinds])
        self._states_differ: set[int] = set()
        self._differing: set[int] = set()
        """Requests that are answered differently, as the state times the number of requests, and the request."""

    @abstractmethod
    def expected(
        self,
        block: Block,
        answers: tuple[Numbers, Numbers, Numbers],
        result: StatesResult,
    ) -> tuple[Numbers, Numbers, NDArray[np.bool_], Numbers]:
        """The observations and answers of the other side in a block of states.

        ``answers`` are Kafka's. Returns the observation of each state; for each request and state the answer in Kafka's
        codes, and True if it can be compared; and the observation after each request.
        """

    @abstractmethod
    def example(self, difference: KafkaDifference, bridge: Bridge) -> Example:
        """A difference to report in full."""

    # --- paths ------------------------------------------------------------------------------------------

    def paths(self, states: Numbers, last: Numbers | None = None) -> list[list[int]]:
        """For each state, the numbers of the requests on a path to it.

        Paths are shortest paths. ``last`` can fix the last step of each: it has the number of a graph step to the state
        (-1: not fixed). The path is then a shortest path to the step's source, followed by the step.
        """
        graph = self.graph
        ends: list[list[int]] = [[] for _ in states]
        if last is not None:
            sources = np.searchsorted(graph.offsets, last, side="right") - 1
            ends = [
                [int(n)] if step >= 0 else []
                for n, step in zip(self.request_of[graph.instances[last]], last, strict=True)
            ]
            states = np.where(last >= 0, sources, states)
        steps, at = [], np.asarray(states, dtype=np.int64)
        while (at >= 0).any():
            inside = at >= 0
            instance = np.where(inside, graph.parent_instances[np.maximum(at, 0)], -1)
            steps.append(np.where(instance >= 0, self.request_of[np.maximum(instance, 0)], -1))
            at = np.where(inside, graph.parents[np.maximum(at, 0)], -1)
        rows = np.array(steps[::-1]).T.tolist()
        return [[n for n in row if n >= 0] + end for row, end in zip(rows, ends, strict=True)]

    def other_steps(self) -> NDArray[np.int64]:
        """For each state, a step to it that is not on the shortest path that the graph stores; -1 if there is none.

        Steps from a state to itself do not count.
        """
        graph, found = self.graph, np.full(len(self.graph.states), -1, dtype=np.int64)
        targets = graph.targets.astype(np.int64)
        off = (graph.parents[targets] != graph.sources) | (graph.parent_instances[targets] != graph.instances)
        numbers = np.flatnonzero(off & (targets != graph.sources))
        found[targets[numbers]] = numbers
        return found

    # --- the comparison ---------------------------------------------------------------------------------

    def run(
        self,
        bridge: Bridge,
        selection: Sample,
        progress: Callable[[ConformResult], None],
        stop: Callable[[], str | None],
    ) -> StatesResult:
        """Compare all states, or a sample. If ``stop`` returns a reason, the run ends with the result so far."""
        graph = self.graph
        states = np.arange(graph.expanded)
        result = StatesResult(stopped_by=graph.stopped_by)
        if selection.sample is not None and selection.sample < len(states):
            chosen = np.random.default_rng(selection.seed).choice(
                len(states), selection.sample, replace=False
            )
            states, result.sampled = np.sort(chosen), True
        self.compare(bridge, states, None, result, progress, stop)
        if selection.other_paths:
            if why := stop():
                result.stopped_by = why
                return result
            steps = self.other_steps()[states]
            self.compare(bridge, states[steps >= 0], steps[steps >= 0], result, progress, stop)
        return result

    def compare(
        self,
        bridge: Bridge,
        states: Numbers,
        last: Numbers | None,
        result: StatesResult,
        progress: Callable[[ConformResult], None] = lambda result: None,
        stop: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Compare Kafka in these states, in order, and add the counts to ``result``.

        ``last`` has the graph step that ends the path to each state, as in ``paths``.
        """
        started = time.perf_counter() - result.seconds
        self._errors = {code: name for name, code in bridge.errors.items()}
        self._throws = bridge.errors[THROWS]
        self._sendable = np.array([not r.lacks(bridge.lacking) for r in self.requests])
        ask = self.answers or KafkaAnswers(bridge, self.setup, self.requests)
        at_once = max(ask.at_once, _STATES_AT_ONCE // ask.at_once * ask.at_once)
        for first in range(0, len(states), at_once):
            if why := stop():
                result.stopped_by = why
                break
            some = states[first : first + at_once]
            block = Block(some, self.paths(some, None if last is None else last[first : first + at_once]))
            try:
                answers = ask(block.paths, self.layout.pack, stop)
                self._compare(block, answers, result)
            except NoAnswerError as wrong:
                request = None if wrong.operation < 0 else wrong.operation
                kind = "the state" if request is None else self.requests[request].kind
                self._note(result, (kind, (NO_ANSWER,)), block, wrong.path, request, str(wrong))
                result.stopped_by = "Kafka does not answer"
                break
            except StoppedError as wrong:
                result.stopped_by = str(wrong)
                break
            result.seconds = time.perf_counter() - started
            progress(result)
        result.seconds = time.perf_counter() - started

    def _compare(
        self,
        block: Block,
        answers: tuple[Numbers, Numbers, Numbers],
        result: StatesResult,
    ) -> None:
        before, errors, after = answers
        now, expected, described, then = self.expected(block, answers, result)
        states = block.states
        result.states += len(states)
        result.transitions += int((self.graph.offsets[states + 1] - self.graph.offsets[states]).sum())
        result.cut += int((self.graph.cut_offsets[states + 1] - self.graph.cut_offsets[states]).sum())
        states_differ = (before != now).any(axis=1)
        throws = errors == self._throws
        compared = described & ~states_differ & self._sendable[:, None]
        self._count(expected, (then != now).any(axis=2), compared, result)
        rows = np.argwhere((compared & ((expected != errors) | (after != then).any(axis=2))).T)
        row, number = rows[:, 0], rows[:, 1]
        self._differing.update((states[row] * len(self.requests) + number).tolist())
        bits = self.layout.differing(after[number, row], then[number, row]) << 2
        theirs, ours = errors[number, row], expected[number, row]
        bits |= (_error(theirs) != _error(ours)) * 1
        bits |= ((theirs - _error(theirs)) != (ours - _error(ours))) * 2
        bits = np.where(throws[number, row], _THROWN, bits)
        for key, places in self._grouped(number, bits) if len(rows) else ():
            result.differences[key] += len(places) - 1
            self._note(result, key, block, int(row[places[0]]), int(number[places[0]]))
            more = result.more.setdefault(key, [])
            for n in places[:: -(-len(places) // KEPT)][: KEPT - len(more)]:
                found = int(states[row[n]]), tuple(block.paths[row[n]]), int(number[n])
                more.append(KafkaDifference(*found, key[1]))
        for place in np.flatnonzero(states_differ):
            bits = self.layout.differing(before[[place]], now[[place]])[0] << 2
            kinds = self._names(_THROWN if throws[:, place].all() else int(bits))
            self._states_differ.add(int(states[place]))
            self._note(result, ("the state", kinds), block, int(place), None)

    def _is_behind(self, state: int) -> bool:
        """True if a state differs because the step to it, or the state before, was seen to differ."""
        before, instance = int(self.graph.parents[state]), int(self.graph.parent_instances[state])
        step = before * len(self.requests) + int(self.request_of[instance])
        return before in self._states_differ or step in self._differing

    def _grouped(self, numbers: NDArray[Any], bits: Numbers) -> Iterator[tuple[Key, NDArray[np.int64]]]:
        """Group requests by kind and differing fields. Yields each group's key, and its places in ``numbers``.

        ``bits`` has an int for each of ``numbers``, as in ``_names``.
        """
        groups, at = np.unique(np.stack([self._kind_of[numbers], bits], axis=1), axis=0, return_inverse=True)
        for number, group in enumerate(groups):
            yield (self.kinds[group[0]], self._names(int(group[1]))), np.flatnonzero(at.ravel() == number)

    def _names(self, bits: int) -> tuple[str, ...]:
        """The names of the set bits: the error, other fields of the answer, then each observed field."""
        if bits == _THROWN:
            return (KAFKA_THROWS,)
        fields = ["error", "answer", *(f.name for f in self.layout.fields)]
        return without_places(name for n, name in enumerate(fields) if bits >> n & 1)

    def _note(
        self,
        result: StatesResult,
        key: Key,
        block: Block,
        row: int,
        request: int | None,
        message: str = "",
    ) -> None:
        result.differences[key] += 1
        if key not in result.examples:
            result.examples[key] = KafkaDifference(
                int(block.states[row]), tuple(block.paths[row]), request, key[1], message
            )

    def _count(
        self,
        expected: Numbers,
        changes: NDArray[np.bool_],
        compared: NDArray[np.bool_],
        result: StatesResult,
    ) -> None:
        result.requests += int(compared.sum())
        kinds = np.broadcast_to(self._kind_of[:, None], expected.shape)
        outcomes = np.stack([kinds[compared], _error(expected[compared]), changes[compared]])
        for (kind, error, changed), count in zip(
            *(part.T.tolist() for part in np.unique(outcomes, axis=1, return_counts=True)), strict=True
        ):
            name = self._errors.get(error, "an error that Kafka does not have")
            result.outcomes[self.kinds[kind], name, bool(changed)] += count
        left = (~compared).sum(axis=1)
        by_kind: dict[str, int] = defaultdict(int)
        for number in np.flatnonzero(left):
            by_kind[self.requests[number].kind] += int(left[number])
        result.not_compared.update(by_kind)

    def shown(
        self, result: ConformResult, bridge: Bridge, most: int, keys: Collection[Key] = ()
    ) -> list[Example]:
        """The first ``most`` kinds of differences to report in full: requests first, with the shortest paths.

        ``keys``: report only these kinds.
        """
        found = [d for key, d in result.examples.items() if not keys or key in keys]
        first = sorted(found, key=lambda d: (d.request is None, len(d.path)))
        return [self.example(difference, bridge) for difference in first[:most]]

    def explained(self, bridge: Bridge, path: list[Plain], operation: Plain) -> Plain:
        """A Kafka's answer in full: error, answer, observations before and after, records; what it throws, if it does.

        An operation that Kafka does not end counts as one that throws.
        """
        try:
            return bridge.ask({"explain": {"scenario": self.setup, "path": path, "op": operation}})
        except NoAnswerError as wrong:
            return {
                "error": bridge.errors[THROWS],
                "answer": 0,
                "before": {},
                "after": {},
                "records": [],
                "exception": NO_ANSWER,
                "message": str(wrong),
            }

    def instances_of(self, difference: KafkaDifference) -> list[int]:
        """The numbers of the action instances on the path to a difference."""
        by_request = {int(r): n for n, r in reversed(list(enumerate(self.request_of)))}
        return [by_request[n] for n in difference.path]

    def sentences(self, difference: KafkaDifference) -> list[str]:
        """The steps of the path, in words."""
        taken = [self.model.instances[n] for n in self.instances_of(difference)]
        return [instance.sentence or str(instance) for instance in taken]


class KafkaComparison(StatesComparison):
    """Compares a Kafka with the model."""

    def __init__(self, model: Model, explore: Callable[[Model], Explored]) -> None:
        super().__init__(model, explore)
        self.expectation = ExpectedAnswers(model, self.requests)
        self.layout = self.expectation.observations

    def expected(
        self,
        block: Block,
        answers: tuple[Numbers, Numbers, Numbers],
        result: StatesResult,
    ) -> tuple[Numbers, Numbers, NDArray[np.bool_], Numbers]:
        """The model's answers. Of a request with two events, those in the order that equals Kafka's answer."""
        codes = self._codes()
        now, errors, described, then = self._choose_order(
            answers, self.expectation(self.graph.states[block.states]), codes, result
        )
        self._check_steps(block.states, then)
        return now, codes[errors], described, then

    def _codes(self) -> Numbers:
        """Kafka's code for each answer of the model; NO_SUCH_ERROR for an error that Kafka does not have."""
        codes = {name: code for code, name in self._errors.items()}
        errors = np.array([codes.get(name, NO_SUCH_ERROR) for name in Error.members], dtype=np.int64)
        return np.concatenate([errors + _SAYS * rest for rest in range(1 << len(ANSWER_FIELDS))])

    def _choose_order(
        self,
        answers: tuple[Numbers, Numbers, Numbers],
        expected: tuple[Numbers, Numbers, NDArray[np.bool_], Numbers],
        codes: Numbers,
        result: StatesResult,
    ) -> tuple[Numbers, Numbers, NDArray[np.bool_], Numbers]:
        """Choose one of three expectations for each request with two events.

        They are the two orders of the events, and both events decided on the state before the request. The method
        chooses the first that equals Kafka's answer; if none does, the first order. Returns the arrays of
        ``expected`` with one row for each request. Counts in ``result`` the answers that equal only the third.
        """
        before, seen_errors, seen = answers
        now, errors, described, then = expected
        two = self.expectation.two_events
        if not len(two):
            return expected
        end = len(self.requests)
        rows = np.stack([two, np.arange(end, end + len(two)), np.arange(end + len(two), len(errors))])
        same = (codes[errors[rows]] == seen_errors[two]) & (then[rows] == seen[two]).all(axis=-1)
        known = described[rows].all(axis=0) & (before == now).all(axis=1)
        number, row = np.nonzero(same[2] & ~same[0] & ~same[1] & known)
        bits = self.layout.differing(then[two[number], row], seen[two[number], row]) << 2
        for key, places in self._grouped(two[number], bits):
            result.decided_together[key] += len(places)
        order = np.where(same.any(axis=0), same.argmax(axis=0), 0)
        chosen = rows[order, np.arange(len(two))[:, None]]
        states = np.arange(len(before))
        errors[two], then[two] = errors[chosen, states], then[chosen, states]
        described[two] = described[rows].all(axis=0)
        return now, errors[:end], described[:end], then[:end]

    def _check_steps(self, block: Numbers, then: Numbers) -> None:
        """Raises InternalError if a graph step and the expectation of its request lead to different observations.

        ``block`` has the numbers of the states before the steps, ``then`` the expected observations after each
        request.
        """
        graph = self.graph
        places = np.concatenate([np.arange(graph.offsets[s], graph.offsets[s + 1]) for s in block])
        rows = np.repeat(np.arange(len(block)), graph.offsets[block + 1] - graph.offsets[block])
        numbers, targets = self.request_of[graph.instances[places]], graph.targets[places]
        distinct, at = np.unique(targets, return_inverse=True)
        reached = self.expectation.now(graph.states[distinct])[at]
        wrong = np.flatnonzero((reached != then[numbers, rows]).any(axis=1))
        if len(wrong):
            step = int(places[wrong[0]])
            request = self.requests[int(numbers[wrong[0]])]
            instance = self.model.instances[int(graph.instances[step])]
            raise InternalError(
                f"conform: the request {request.operation} is not what {instance} does in state "
                f"{int(block[rows[wrong[0]]])}"
            )

    def example(self, difference: KafkaDifference, bridge: Bridge) -> Example:
        """A difference to report in full, with the outcomes of the model and of Kafka."""
        operations = [self.requests[n].operation for n in difference.path]
        request = None if difference.request is None else self.requests[difference.request]
        operation = {"name": "failover"} if request is None else request.operation
        answer = self.explained(bridge, operations, operation)
        content: Plain = {
            "path": operations,
            "sentences": self.sentences(difference),
            "request": operation if request else None,
            "kind": request.kind if request else "the state",
            "differs": list(difference.kinds),
        }
        seen = answer["before" if request is None else "after"]
        lines = list(heading(content["kind"], content["differs"], content["sentences"]))
        if request is None:
            now = self.expectation.now(self.graph.states[[difference.state]])[0]
            outcomes = [ExpectedOutcome("NONE", self.layout.unpack(now))]
        else:
            state = self.graph.scalars(difference.state)
            outcomes = [evaluated(one, state) for one in trace(self.model, request)]
        expected = outcomes[0].after
        failing = answer["error"] == bridge.errors[THROWS]
        model: Plain = {n: value for n, value in expected.items() if not failing and value != seen[n]}
        kafka: Plain = {name: seen[name] for name in model}
        if request is None:
            content |= {"model": {"state": model}, "kafka": {"state": kafka}}
            lines += ["  after these steps:", *(side_by_side(model, kafka) if model else ())]
            lines += lines_of_answer(answer)
        else:
            error = next(name for name, code in bridge.errors.items() if code == answer["error"])
            thrown: Plain = {k: answer[k] for k in ("exception", "message") if k in answer}
            refused_by = self._guards(difference, state)
            mine, theirs = answer_text(outcomes[0].answer), answer_text(answer["answer"])
            content |= {
                "model": {"error": outcomes[0].error, "answer": mine, "after": model},
                "refused_by": refused_by,
                "kafka": {
                    "error": error,
                    "answer": theirs,
                    "after": kafka,
                    "records": answer["records"],
                    **thrown,
                },
            }
            rows = {"error": outcomes[0].error, "answer": mine, **model}
            kafka_rows = {"error": error, "answer": theirs, **kafka}
            if mine == theirs or failing:
                del rows["answer"]
            lines += [f"  then: {json.dumps(operation)}", *side_by_side(rows, kafka_rows)]
            if refused_by:
                lines.append(paragraph(f"  the model's action is refused by: {'; '.join(refused_by)}"))
            lines += lines_of_answer(answer)
        file = RequestFile(
            FORMAT, self.setup, operations, operation, outcomes[0], content["differs"], outcomes[1:]
        )
        return Example(content, lines, file)

    def _guards(self, difference: KafkaDifference, state: tuple[int, ...]) -> list[str]:
        numbers = np.flatnonzero(self.request_of == difference.request)
        interpreter = interpreter_of(self.model)
        return [g for n in numbers[:1] for g in interpreter.refusals(state, self.model.instances[n])]


def evaluated(one: Traced, state: Sequence[int]) -> ExpectedOutcome:
    """The outcome of a traced request in a state."""
    error, answer, *values = values_of([one.error, one.says, *(node for _, node in one.after)], state)
    after: dict[str, int | None] = {
        name: int(value) for (name, _), value in zip(one.after, values, strict=True)
    }
    return ExpectedOutcome(list(Error.members)[error], after, answer)
