"""Counterexamples of the model, run step by step by Kafka's own code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from highwater.checker.base.problems import InputError
from highwater.checker.base.text import paragraph
from highwater.checker.conform.bridge import Bridge
from highwater.checker.conform.expectation import as_number, observed
from highwater.checker.conform.kafka_request import instance_key
from highwater.checker.conform.members import walks_of
from highwater.checker.conform.requests import requests_of, setup_of
from highwater.checker.conform.walks import REFUSAL, WalkComparison, differing
from highwater.checker.scenarios.search import ViolatingRun
from highwater.model.language import State
from highwater.model.language.graph import values_of
from highwater.model.language.interpreter import interpreter_of
from highwater.model.language.model import Model
from highwater.model.language.tracing import tracing
from highwater.model.replication.controller import Controller
from highwater.model.replication.protocol import Replication


@dataclass(frozen=True)
class Reproduction:
    """The result of a counterexample that Kafka's code executed."""

    violated: str
    """The violated property."""
    sentences: tuple[str, ...]
    """A sentence for each step."""
    differences: tuple[tuple[str, ...], ...]
    """For each step, the fields in which Kafka's state after the step differs from the model's state."""
    stopped_at: int | None = None
    """The number (from 1) of the first step that Kafka does not take; None if Kafka takes all steps."""
    fails: tuple[str, ...] = ()
    """Requests that make Kafka's controller throw in the last state, each with the exception."""
    lost: tuple[int, ...] | None = None
    """The values of the records that some leader in Kafka acknowledged, and that the leader of the last state lacks.

    None if the protocol has no logs, or if the last state has no leader.
    """

    @property
    def reproduced(self) -> bool:
        """True if Kafka takes every step, and at the end is in the model's state or has lost an acknowledged record."""
        if self.stopped_at is not None:
            return False
        return not self.differences[-1] or bool(self.lost)

    def to_json(self) -> dict[str, Any]:
        """The reproduction as plain data for ``--json``."""
        return {
            "property": self.violated,
            "reproduced": self.reproduced,
            "steps": [
                {"sentence": sentence, "differs": list(fields)}
                for sentence, fields in zip(self.sentences, self.differences, strict=False)
            ],
            "stopped_at": self.stopped_at,
            "fails": list(self.fails),
            "lost": None if self.lost is None else list(self.lost),
        }

    def lines(self, version: str) -> Iterator[str]:
        """The lines of the text report."""
        what = "reproduced" if self.reproduced else "NOT reproduced"
        yield f"{self.violated}: {what} in Kafka {version}, {len(self.sentences)} steps"
        for number, sentence in enumerate(self.sentences, 1):
            end = f"  (Kafka does not take step {number})" if number == self.stopped_at else ""
            fields = self.differences[number - 1] if number <= len(self.differences) else ()
            differs = f"  (differs in {', '.join(fields)})" if fields else ""
            yield paragraph(f"  {number}. {sentence}{end}{differs}")
        for failure in self.fails:
            yield f"  Kafka's controller then throws: {failure}"
        if self.lost is not None:
            yield f"  acknowledged records that Kafka's last leader lacks: {len(self.lost)}"


def reproduce(model: Model, run: ViolatingRun, bridge: Bridge) -> Reproduction:
    """Execute a counterexample with Kafka's code, and return the differences from the model.

    Raises InputError if the bridge has no operation for an action, or does not support the protocol.
    """
    protocol = model.protocol
    if (kind := walks_of(type(protocol))) is not None:
        return _in_cluster(kind, model, run, bridge)
    if isinstance(protocol, Controller):
        return _in_controller(model, protocol, run, bridge)
    raise InputError(f"conform compares no scenario of {protocol.name}")


def _states(model: Model, run: ViolatingRun) -> list[tuple[int, ...]]:
    """The states of a run, from the initial one on."""
    interpreter, states = interpreter_of(model), [run.initial]
    for number in run.path:
        after = interpreter.step(states[-1], number).state
        assert after is not None, "a counterexample takes steps that are enabled"
        states.append(after)
    return states


def _sentences(model: Model, run: ViolatingRun) -> tuple[str, ...]:
    instances = [model.instances[number] for number in run.path]
    return tuple(instance.sentence or str(instance) for instance in instances)


def _in_cluster(kind: type[WalkComparison], model: Model, run: ViolatingRun, bridge: Bridge) -> Reproduction:
    operations = [kind.operation_of(model.instances[number]) for number in run.path]
    if None in operations:
        raise InputError(
            f"conform: {model.instances[run.path[operations.index(None)]]} is no event of the bridge"
        )
    bridge.begin({"scenario": kind.setup_of(model), "operations": operations})
    answer = bridge.ask({"walk": [list(range(len(operations)))]})
    walk, states = answer["walks"][0], _states(model, run)
    outcomes, expected = walk[1::2], kind.observations(model)
    fields = [
        differing(expected(state), answer["seen"][number])
        for state, number in zip(states[1:], walk[2::2], strict=False)
    ]
    stopped = next((n for n, outcome in enumerate(outcomes, 1) if outcome and outcome > REFUSAL), None)
    if not isinstance(model.protocol, Replication):
        return Reproduction(run.property, _sentences(model, run), tuple(fields), stopped, ())
    acknowledged = {
        operation["value"]
        for operation, outcome in zip(operations, outcomes, strict=False)
        if operation is not None and operation["name"] == "acknowledge" and not outcome
    }
    last = answer["seen"][walk[-1]]
    leader = last["partition.leader"]
    log = {value for name, value in last.items() if name.startswith(f"log.value[{leader}]")}
    lost = tuple(sorted(acknowledged - log)) if leader >= 0 else None
    return Reproduction(run.property, _sentences(model, run), tuple(fields), stopped, (), lost)


def _in_controller(model: Model, protocol: Controller, run: ViolatingRun, bridge: Bridge) -> Reproduction:
    requests = requests_of(protocol)
    known = {request.action: request.operation for request in requests if request.action}
    taken = [model.instances[number] for number in run.path]
    keys = [instance_key(i.action.name, dict(i.parameters)) for i in taken]
    if missing := [key for key in keys if key not in known]:
        raise InputError(f"conform: {missing[0][0]} is no request of Kafka's controller under these rules")
    path = [known[key] for key in keys]
    with tracing(protocol.on):
        fields = observed(protocol, State(protocol.state, list(model.inputs)))
    names, nodes = [name for name, _ in fields], [as_number(node) for _, node in fields]
    errors, setup = {code: name for name, code in bridge.errors.items()}, setup_of(protocol)
    differences, stopped = [], None
    for number, state in enumerate(_states(model, run)[1:]):
        answer = bridge.ask({"explain": {"scenario": setup, "path": path[:number], "op": path[number]}})
        wanted = dict(zip(names, map(int, values_of(nodes, state)), strict=True))
        differences.append(differing(wanted, answer["after"]))
        # NEW_LEADER_ELECTED is the answer to a change that is carried out, and that elects another leader.
        if answer["error"] and differences[-1] and stopped is None:
            stopped = number + 1
    fails = []
    for request in requests:
        if request.action:
            answer = bridge.ask({"explain": {"scenario": setup, "path": path, "op": request.operation}})
            if errors[answer["error"]] == "UNKNOWN_SERVER_ERROR" and "exception" in answer:
                fails.append(f"{request.operation}: {answer['exception']}: {answer['message']}")
    return Reproduction(run.property, _sentences(model, run), tuple(differences), stopped, tuple(fails))
