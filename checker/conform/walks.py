"""Walks of a whole cluster: each step of the protocol ``replication`` taken by Kafka's brokers and controller.

Paths from the initial state cover every step of the explored graph. After each step the cluster is compared with the
model's state. A path ends at a difference; later paths go around it.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Any

import msgspec

from highwater.checker.base.problems import InputError
from highwater.checker.base.text import columns, width
from highwater.checker.conform.bridge import Bridge, NoAnswerError, StoppedError
from highwater.checker.conform.cluster_state import ExpectedObservations, Seen, or_else
from highwater.checker.conform.random_walks import WalkedGraph
from highwater.checker.conform.results import (
    KAFKA_THROWS,
    KEPT,
    NO_ANSWER,
    ConformResult,
    Example,
    Key,
    Plain,
    Sample,
    heading,
    side_by_side,
)
from highwater.checker.engines.state_graph import Explored
from highwater.model.language.model import Instance, Model
from highwater.model.replication.cluster import committed_at_start
from highwater.model.replication.isr import REVERTS, WAITS
from highwater.model.replication.protocol import Replication

_PATHS_IN_A_LINE = 16
_LONGEST = 200
"""A path with fewer steps than this is extended to the nearest untaken step."""
_RANDOM = 20
"""The most random steps after the path to a random state."""
_NEAR = 400
"""The most states that are searched for the next untaken step."""
NOTHING, REFUSED, REPEATED, THROWS, REFUSAL = -1, -2, -3, -500, -1000
"""Answers of the bridge.

Kafka has no such step now; does the opposite, such as accepting a refused fetch; repeats a proposal that was answered;
throws; refuses a fetch as it should (minus the error).
"""
WALK_FORMAT = "highwater-conform-walk-2"

_OF_CONTROLLER: dict[str, Callable[[Plain], Plain]] = {
    "change_min_isr": lambda p: {"name": "changeMinIsr", "value": p["value"]},
    "reassign": lambda p: {"name": "alterPartitionReassignments", "replicas": list(p["target"])},
    "cancel_reassignment": lambda p: {"name": "alterPartitionReassignments", "replicas": None},
    "downgrade": lambda p: {"name": "updateFeatures", "level": 0, "upgradeType": "SAFE_DOWNGRADE"},
    "upgrade": lambda p: {"name": "updateFeatures", "level": 1, "upgradeType": "UPGRADE"},
    "elect_preferred_leader": lambda p: {"name": "electLeaders", "type": "PREFERRED"},
    "elect_uncleanly": lambda p: {"name": "electLeaders", "type": "UNCLEAN"},
}
"""Actions that are a request to the controller alone."""
_OF_CLUSTER = frozenset({
    "fence_broker", "unfence_broker", "handle_alter_partition", "send_fetch", "receive_late_fetch", "answer_fetch",
    "refuse_fetch", "take_fetch_answer", "propose_expand", "propose_shrink", "propose_isr", "retry_alter_partition",
    "take_alter_answer", "lose_alter_partition", "write_acks_all", "write_acks_one", "acknowledge", "crash_broker",
    "crash_and_lose", "lose_disk", "start_broker", "start_broker_in_part", "begin_shutdown", "finish_shutdown",
    "stop_unseen", "stop_before_registration", "flush_log", "replay_metadata", "send_metadata",
})  # fmt: skip
"""Actions that the bridge carries out as operations of the same name."""


def operation_of(instance: Instance) -> Plain | None:
    """The bridge's operation for an action instance; None if the bridge has none."""
    name, parameters = instance.action.name, dict(instance.parameters)
    if name in _OF_CONTROLLER:
        return {"name": "controller", "op": _OF_CONTROLLER[name](parameters)}
    if name not in _OF_CLUSTER or "checkpoint" in parameters or "elected" in parameters:
        return None
    return {"name": name, **{k: v for k, v in parameters.items() if isinstance(v, (int, bool))}}


def setup_of(model: Model) -> Plain:
    """The bridge's settings for a cluster in the model's initial state. Raises InputError if there are several."""
    protocol = model.protocol
    assert isinstance(protocol, Replication)
    if len(model.initial) != 1:
        raise InputError("conform: a scenario with several initial states cannot be walked")
    initial = model.decode(model.initial[0])
    return {
        "brokers": protocol.p.brokers,
        "minIsr": initial["min_insync_replicas"],
        "unclean": bool(protocol.p.unclean_election),
        "elr": int(initial.get("elr_level", True)),
        "partitions": [initial["partition"]["replicas"]],
        "isr": initial["partition"]["isr"],
        "records": committed_at_start(protocol),
        "waitsForCaughtUp": protocol.on("hwm_waits_for_caught_up"),
        "reverts": REVERTS,
    }


# --- the paths ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StepDifference:
    """A step after which the cluster differs from the model, or that Kafka does not take."""

    path: tuple[int, ...]
    """The numbers of the action instances up to this step."""
    state: int
    """The number of the model's state after the step."""
    outcome: int
    """The bridge's answer: 0, an error code of Kafka, ``NOTHING`` or ``REFUSED``."""
    seen: Seen
    """The observation of the cluster after the step."""
    message: str = ""
    """The exception that Kafka throws, or where it is if it does not answer."""
    before: int = 0
    """The number of the model's state before the step."""


@dataclass
class WalkResult(ConformResult):
    """The counts and differences of a comparison by walks. ``transitions`` counts distinct steps of the graph.

    ``not_compared`` has steps that the bridge cannot take, that are known to differ, or that no path reaches.
    """

    compared_with = "the brokers of Kafka"
    unit = whole = "step"
    of_the_scenario: int = 0
    """The number of transitions of the graph."""
    steps: int = 0
    """Steps of all paths together, without a difference."""
    paths: int = 0
    taken: Counter[str] = field(default_factory=Counter)
    """The distinct steps that some path took, by action."""

    @property
    def size(self) -> int:
        """The number of steps without a difference."""
        return self.steps

    @property
    def compared(self) -> str:
        """The counts, as text for the headline."""
        rate = self.steps / self.seconds if self.seconds else 0
        return (
            f"{self.transitions:,} of {self.of_the_scenario:,} transitions, {self.paths:,} paths, "
            f"{self.steps:,} steps ({rate:,.0f}/s)"
        )

    def counts(self) -> Plain:
        """The counts of this kind of comparison, for the JSON."""
        return {
            "transitions_of_the_scenario": self.of_the_scenario,
            "steps": self.steps,
            "paths": self.paths,
            "steps_by_action": dict(sorted(self.taken.items())),
        }

    def lines(self) -> Iterator[str]:
        """The lines of the summary before the differences."""
        taken = [(action, f"{number:,}") for action, number in sorted(self.taken.items())]
        left = [(f"{number:,}", reason) for reason, number in self.not_compared.most_common()]
        for title, rows in (
            ("transitions taken, by action", taken),
            ("transitions not compared, with the reason", left),
        ):
            if rows:
                yield f"  {title}:"
                yield from columns(rows, "    ", width())


class WalkComparison:
    """Compares the explored graph of a scenario of ``replication`` with a cluster of Kafka's own code.

    A subclass compares another protocol.
    """

    result: type[WalkResult] = WalkResult
    observations: Callable[[Model], Any] = ExpectedObservations
    has_errors = True
    """True if leaders take errors of AlterPartition, which are compared apart from the walks."""
    setup_of = staticmethod(setup_of)
    operation_of = staticmethod(operation_of)

    def __init__(self, model: Model, explore: Callable[[Model], Explored | WalkedGraph]) -> None:
        self.model = model
        self.setup = self.setup_of(model)
        self.operations = [self.operation_of(instance) for instance in model.instances]
        self.expected = self.observations(model)
        self.graph = explore(model)
        self._offsets = self.graph.offsets.tolist()
        self._targets = self.graph.targets.tolist()
        self._instances = self.graph.instances.tolist()
        self._plain: dict[int, Plain] = {}
        self._equal: dict[int, Seen] = {}
        """By state: an observation that equals the model's."""
        self._errors: Mapping[str, int] = {}
        self._thrown = ""
        """The exception at the end of the path that is compared."""
        self._taken, self._reached, self._blocked = set[int](), set[int](), set[int]()
        """Steps that agree, the states that they reach, and steps that later paths avoid."""

    def describe(self) -> Plain:
        """The first line to the bridge: the set-up of a cluster, and the operations of all action instances."""
        return {"scenario": self.setup, "operations": [o or {"name": "none"} for o in self.operations]}

    def plain(self, state: int) -> Plain:
        """The state with this number, as plain values."""
        if state not in self._plain:
            self._plain[state] = self.model.decode(self.graph.scalars(state))
        return self._plain[state]

    def reason(self, state: int, instance: int) -> str | None:
        """The reason why no path can take the step of ``instance`` from ``state``; None if a path can take it."""
        name = self.model.instances[instance].action.name
        if self.operations[instance] is None:
            return f"{name}: the bridge has no such event"
        if name in ("propose_shrink", "propose_isr"):
            parameters = self.model.instances[instance].parameters
            leader = self.plain(state)["brokers"][parameters["leader"]]
            end, isr = len(leader["log"]), set(leader["view"]["isr"])
            lagging = {
                f for f in isr - {parameters["leader"]} if or_else(leader["followers"][f]["leo"], -1) < end
            }
            leaving = {parameters["f"]} if "f" in parameters else isr - set(parameters["isr"])
            joining = set() if "f" in parameters else set(parameters["isr"]) - isr
            if joining or leaving != lagging:
                return f"{name}: Kafka proposes one new member, or to remove all that lag"
        return None

    def judged(self, state: int, instance: int, outcome: int, fields: tuple[str, ...]) -> str | None:
        """The reason for a known difference of a step; None if the difference is not known.

        ``outcome`` is the bridge's answer, and ``fields`` are the names of the differing fields.
        """
        step, plain = self.model.instances[instance], self.plain(state)
        name, parameters = step.action.name, step.parameters
        if name == "retry_alter_partition" and outcome == NOTHING:
            return "Kafka does not repeat a proposal that was answered; it waits for metadata"
        if name in ("send_fetch", "take_fetch_answer"):
            follower = plain["brokers"][parameters["f"]]
            if follower["status"] == "SHUTTING_DOWN" and parameters["f"] not in follower["view"]["isr"]:
                return "in a controlled shutdown Kafka's follower outside the ISR stops fetching"
        if name == "replay_metadata" and not outcome:
            broker = plain["brokers"][parameters["b"]]
            added = set(plain["partition"]["replicas"]) - set(broker["view"]["replicas"])
            if added and set(fields) <= {"follower.leo", "follower.epoch"}:
                return "Kafka's leader forgets the fetches of a replica that is removed and added again"
            fenced = any(plain["registrations"][f]["fenced"] for f in broker["view"]["active"])
            if fenced and self.setup["waitsForCaughtUp"] and set(fields) <= {"hwm", "acknowledged"}:
                return "after a caught-up replica is fenced Kafka's HWM waits for one of these events, too"
            leads = parameters["b"] in (broker["view"]["leader"], plain["partition"]["leader"])
            if leads and broker["view"]["min_isr"] > plain["min_insync_replicas"]:
                return "after a lower min ISR Kafka's HWM waits for the next append, fetch of records, or ISR change"
        if name == "take_alter_answer" and not outcome and set(fields) <= {"hwm", "acknowledged"}:
            answer = plain["alter_responses"][parameters["leader"]]
            if answer is not None and answer["outcome"] == "REVERT":
                return "after a refused proposal Kafka's HWM waits for the next append, fetch of records, or ISR change"
        if name == "refuse_fetch" and outcome == REFUSED:
            leader = plain["brokers"][plain["fetch_requests"][parameters["f"]]["leader"]]
            if parameters["f"] not in leader["view"]["active"]:
                return "Kafka's leader takes a former incarnation's fetch while the sender is fenced"
        return None

    def paths(self, open_steps: set[int], blocked: set[int]) -> Iterator[list[int]]:
        """Yield paths, as numbers of graph steps. Together they take all open steps reachable without blocked steps.

        The steps of a path are removed from ``open_steps`` before it is yielded.
        """
        tree: dict[int, int] = {}
        for state in list(self._search(0, blocked, tree)):
            while any(step in open_steps for step in self._steps(state)):
                path, at = self._path(tree, state), state
                while len(path) < _LONGEST and (more := self._to_open(at, open_steps, blocked)):
                    open_steps.difference_update(more)
                    path += more
                    at = self._targets[path[-1]]
                open_steps.difference_update(path)
                yield path

    def _to_open(self, start: int, open_steps: set[int], blocked: set[int]) -> list[int]:
        """The shortest list of steps from state ``start`` that ends with an open step.

        It is empty if the search finds no open step in _NEAR states.
        """
        tree: dict[int, int] = {}
        for state in self._search(start, blocked, tree):
            if (step := next((s for s in self._steps(state) if s in open_steps), None)) is not None:
                return [*self._path(tree, state), step]
            if len(tree) >= _NEAR:
                break
        return []

    def _steps(self, state: int) -> range:
        return range(self._offsets[state], self._offsets[state + 1])

    def _search(self, start: int, blocked: set[int], tree: dict[int, int]) -> Iterator[int]:
        """Yield the states that are reachable without blocked steps, those with shorter paths first.

        ``tree`` gets the last step of a shortest path to each state; -1 for ``start``.
        """
        tree[start] = -1
        waiting = deque([start])
        while waiting:
            state = waiting.popleft()
            yield state
            for step in self._steps(state):
                target = self._targets[step]
                if step not in blocked and target not in tree:
                    tree[target] = step
                    waiting.append(target)

    def _path(self, tree: dict[int, int], state: int) -> list[int]:
        path: list[int] = []
        while (step := tree[state]) >= 0:
            path.append(step)
            state = int(self.graph.sources[step])
        return path[::-1]

    def random_paths(self, count: int, length: int, seed: int, blocked: set[int]) -> Iterator[list[int]]:
        """Yield ``count`` paths: a shortest path to a random state, followed by up to ``length`` random steps.

        No step is blocked. Each random step is chosen among those steps of the current state that earlier random steps
        took least often. A graph of random walks has its own paths.
        """
        if isinstance(self.graph, WalkedGraph):
            for walk in self.graph.walks:
                yield list(takewhile(lambda step: step not in blocked, walk))
            return
        choose, times = random.Random(seed), Counter[int]()
        tree: dict[int, int] = {}
        states = list(self._search(0, blocked, tree))
        for _ in range(count):
            at = choose.choice(states)
            path = self._path(tree, at)
            end = len(path) + length
            while len(path) < end:
                steps = [s for s in self._steps(at) if s not in blocked]
                if not steps:
                    break
                fewest = min(times[s] for s in steps)
                path.append(choose.choice([s for s in steps if times[s] == fewest]))
                times[path[-1]] += 1
                at = self._targets[path[-1]]
            yield path

    # --- the comparison -------------------------------------------------------------------------------------

    def run(
        self,
        bridge: Bridge,
        selection: Sample,
        progress: Callable[[ConformResult], None],
        stop: Callable[[], str | None],
    ) -> WalkResult:
        """Compare along paths that cover every step that the bridge can take, or along a sample of random walks.

        If ``stop`` returns a reason, the run ends with the result so far. Raises InputError if the cluster does not
        begin in the model's initial state.
        """
        sample, started = selection.sample, time.perf_counter()
        result = self.result(
            sampled=sample is not None, of_the_scenario=len(self._targets), stopped_by=self.graph.stopped_by
        )
        bridge.begin(self.describe())
        self._errors = bridge.errors
        try:
            if self.has_errors:
                self._after_errors(bridge.ask({"errors": True}), result)
        except (NoAnswerError, StoppedError) as wrong:
            self._ended(wrong, [], result)
            return result
        taken, reached, blocked = self._taken, self._reached, self._blocked
        for state in range(self.graph.expanded):
            for step in self._steps(state):
                why = self.reason(state, self._instances[step])
                if why is not None:
                    blocked.add(step)
                    result.not_compared[why] += 1
        while True:  # a path ends at a difference; the next round of paths goes around it
            if sample:
                paths: Iterator[list[int]] = self.random_paths(sample, _RANDOM, selection.seed, blocked)
            else:
                open_steps = set(range(len(self._targets))) - taken - blocked
                paths = self.paths(open_steps, blocked)
            before = len(taken), len(blocked)
            for path, walk in self._walked(bridge, paths, stop, result):
                self._compare(path, walk, result)
                result.states, result.transitions = len(reached), len(taken)
                result.seconds = time.perf_counter() - started
                progress(result)
            if sample or (len(taken), len(blocked)) == before or result.stopped_by:
                break
        for step in taken:
            result.taken[self.model.instances[self._instances[step]].action.name] += 1
        beyond = len(self._targets) - len(taken | blocked)
        if beyond and not sample:
            result.not_compared["beyond steps that are left out or differ"] = beyond
        result.seconds = time.perf_counter() - started
        return result

    def _after_errors(self, seen: Plain, result: WalkResult) -> None:
        """Compare what a leader does after each error of AlterPartition."""
        if thrown := seen.pop("thrown", None):
            self._add([], KAFKA_THROWS, thrown, result)
        for error, done in seen.items():
            wanted = "reverts" if error in REVERTS else "waits" if error in WAITS else "repeats"
            if done != wanted:
                key = f"the answer {error} to AlterPartition", (f"the leader {done}, the model {wanted}",)
                result.differences[key] += 1
                result.examples[key] = StepDifference((), 0, 0, {}, str(done))

    def _walked(
        self, bridge: Bridge, paths: Iterator[list[int]], stop: Callable[[], str | None], result: WalkResult
    ) -> Iterator[tuple[list[int], list[Any]]]:
        lines: deque[list[list[int]]] = deque()

        def questions() -> Iterator[object]:
            while line := list(islice(paths, _PATHS_IN_A_LINE)):
                lines.append(line)
                yield {"walk": [[self._instances[step] for step in path] for path in line]}
                if why := stop():
                    result.stopped_by = why
                    return

        answers = bridge.answered(questions())
        while True:
            try:
                answer = next(answers, None)
            except (NoAnswerError, StoppedError) as wrong:
                self._ended(wrong, lines[0], result)
                return
            if answer is None:
                return
            seen = answer["seen"]
            for number, (path, numbers) in enumerate(zip(lines.popleft(), answer["walks"], strict=True)):
                self._thrown = answer["thrown"].get(str(number), "")
                yield (
                    path,
                    [seen[numbers[0]], *zip(numbers[1::2], (seen[n] for n in numbers[2::2]), strict=True)],
                )

    def _ended(self, wrong: NoAnswerError | StoppedError, line: list[list[int]], result: WalkResult) -> None:
        """End the comparison, without an answer to the paths of ``line``."""
        if isinstance(wrong, StoppedError):
            result.stopped_by = str(wrong)
            return
        path = line[wrong.path][: wrong.operation + 1] if line else []
        self._add(path, NO_ANSWER, str(wrong), result)
        result.stopped_by = "Kafka does not answer"

    def _add(self, path: list[int], what: str, message: str, result: WalkResult) -> None:
        """Add a difference at the end of a path, at which Kafka throws or does not answer."""
        steps = tuple(self._instances[step] for step in path)
        name = self.model.instances[steps[-1]].action.name if steps else "the initial state"
        result.differences[name, (what,)] += 1
        old = result.examples.get((name, (what,)))
        if old is None or len(old.path) > len(steps):
            state = self._targets[path[-1]] if path else 0
            result.examples[name, (what,)] = StepDifference(steps, state, THROWS, {}, message)

    def _compare(self, path: list[int], walk: list[Any], result: WalkResult) -> None:
        result.paths += 1
        if self._thrown:
            count = len(walk) - 1
            self._compare_steps(path, walk[:-1], result)
            if not self._blocked.intersection(path[:count]):
                self._blocked.update(path[max(0, count - 1) : count])
                self._add(path[:count], KAFKA_THROWS, self._thrown, result)
            return
        self._compare_steps(path, walk, result)

    def _compare_steps(self, path: list[int], walk: list[Any], result: WalkResult) -> None:
        if walk and self._differing(0, walk[0]):
            raise InputError(
                f"conform: the cluster does not begin as the model does: {self._differing(0, walk[0])}"
            )
        self._reached.add(0)
        at = 0
        for number, (outcome, seen) in enumerate(walk[1:]):
            step = path[number]
            state, instance = self._targets[step], self._instances[step]
            name = self.model.instances[instance].action.name
            fields: tuple[str, ...] = self._differing(state, seen)
            if name == "refuse_fetch" and outcome in (0, *range(REFUSAL - 999, REFUSAL)):
                f = self.model.instances[instance].parameters["f"]
                wanted = self.expected.refusal(f, self.graph.scalars(at))
                if (REFUSAL - self._errors[wanted] if wanted != "NONE" else 0) != outcome:
                    fields = (f"error ({REFUSAL - outcome if outcome else 0}, the model {wanted})",)
            elif outcome == REPEATED:
                fields = ("the leader repeats its proposal",)
            elif outcome:
                fields = ("is not taken" if outcome == NOTHING else f"is refused ({outcome})",)
            if fields:
                if step not in self._blocked:
                    self._blocked.add(step)
                    if (why := self.judged(at, instance, outcome, fields)) is not None:
                        result.not_compared[f"{name}: {why}"] += 1
                        return
                    result.differences[name, fields] += 1
                    steps = tuple(self._instances[s] for s in path[: number + 1])
                    old, new = (
                        result.examples.get((name, fields)),
                        StepDifference(steps, state, outcome, seen, before=at),
                    )
                    if old is None or len(old.path) > len(steps):
                        result.examples[name, fields] = new
                    if len(more := result.more.setdefault((name, fields), [])) < KEPT:
                        more.append(new)
                return
            at = state
            result.steps += 1
            self._taken.add(step)
            self._reached.add(state)

    def _differing(self, state: int, seen: Seen) -> tuple[str, ...]:
        if self._equal.get(state) == seen:
            return ()
        fields = differing(self.expected(self.graph.scalars(state)), seen)
        if not fields:
            self._equal[state] = seen
        return fields

    def shown(
        self, result: ConformResult, bridge: Bridge, most: int, keys: Collection[Key] = ()
    ) -> list[Example]:
        """The first ``most`` kinds of differences to report in full, with the shortest paths.

        ``keys``: report only these kinds.
        """
        found = [item for item in result.examples.items() if not keys or item[0] in keys]
        first = sorted(found, key=lambda e: len(e[1].path))
        return [self._example(key, difference) for key, difference in first[:most]]

    def instances_of(self, difference: StepDifference) -> Sequence[int]:
        """The numbers of the action instances on the path to a difference, without the step that differs."""
        return difference.path[:-1]

    def _example(self, key: Key, found: StepDifference) -> Example:
        instances = self.model.instances
        wanted = self.expected(self.graph.scalars(found.state))
        thrown = [found.message] if found.message else []
        shown = [n for n, value in wanted.items() if value != found.seen.get(n, value)]
        content: Plain = {
            "step": key[0],
            "differs": list(key[1]),
            "sentences": [instances[n].sentence or str(instances[n]) for n in found.path],
            "path": [self.operations[n] for n in found.path],
            "model": {name: wanted[name] for name in shown},
            "kafka": {name: found.seen[name] for name in shown},
        }
        lines = [*heading(key[0], key[1], content["sentences"]), "  after these steps:"]
        if thrown:
            content["said"] = found.message
        lines += [f"  Kafka: {found.message}"] if thrown else side_by_side(content["model"], content["kafka"])
        return Example(content, lines, WalkFile(WALK_FORMAT, self.setup, content["path"], wanted))


_PLACES = re.compile(r"\[\d+\]")


def without_places(names: Iterable[str]) -> tuple[str, ...]:
    """The names without the numbers in brackets, each once."""
    return tuple(dict.fromkeys(_PLACES.sub("", name) for name in names))


def differing(wanted: Mapping[str, int], seen: Mapping[str, int]) -> tuple[str, ...]:
    """The fields in which an observation differs from the expected one, without numbers of brokers and offsets.

    A field that only one side has, such as a record of a longer log, counts only if no other field differs.
    """
    names = [name for name, value in wanted.items() if seen.get(name) != value]
    return without_places([name for name in names if name in seen] or names)


# --- files that repeat a difference ---------------------------------------------------------------------------


class WalkFile(msgspec.Struct, forbid_unknown_fields=True):
    """The content of a file from which a difference can be repeated: a path, and the model's observation after it."""

    format: str
    scenario: Plain
    path: list[Plain]
    expected: dict[str, int]


def repeated_walk(file: WalkFile, bridge: Bridge) -> tuple[bool, list[str]]:
    """Repeat the walk of a file. Returns a pair: True if Kafka's cluster ends as the file expects; lines of text."""
    bridge.begin({"scenario": file.scenario, "operations": file.path})
    try:
        answer = bridge.ask({"walk": [list(range(len(file.path)))]})
    except NoAnswerError as wrong:
        return False, [str(wrong)]
    walk = answer["walks"][0]
    seen = answer["seen"][walk[-1]]
    lines = [f"  {number}. {op}" for number, op in enumerate(file.path, 1)]
    taken = len(walk) == 2 * len(file.path) + 1 and not any(walk[1::2])
    fields = differing(file.expected, seen) if taken else (f"step {len(walk) // 2} is not taken",)
    lines += [f"  Kafka throws: {message}" for message in answer["thrown"].values()]
    return not fields, [*lines, *(f"  differs: {name}" for name in fields)]
