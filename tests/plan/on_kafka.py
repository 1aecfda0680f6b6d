"""Runs of plans on Kafka's own controller: from a healthy partition through faults to a state, then the alarm's run."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from highwater.checker.conform.bridge import Bridge
from highwater.checker.conform.counterexamples import Reproduction, reproduce
from highwater.checker.engines.native.state_graph import visited
from highwater.checker.engines.state_graph import Layout, path
from highwater.checker.plan.answer import BAD, NAMES
from highwater.checker.plan.kinds import PlanStart, Shape
from highwater.checker.plan.search import Searches
from highwater.checker.scenarios.search import SearchOptions, ViolatingRun
from highwater.model.language import Model
from highwater.model.language.initial import Scalars
from highwater.model.language.interpreter import interpreter_of
from highwater.model.replication.controller import Controller
from highwater.model.replication.controller.planned import Planned
from highwater.traces.metadata.beliefs.controller_stepper import encode

SILENT = frozenset(
    {"crash", "lose_log", "slow_down", "stop", "kill", "await_return", "await_isr", "keep_min_isr"}
)
"""The steps of a run about which the controller hears nothing."""
_SAME = frozenset({
    "fence", "start_controlled_shutdown", "register", "unfence", "maybe_elect_unclean_leader", "maybe_balance_leader",
    "assign_directory", "register_in_part", "change_min_isr", "cancel_reassignment", "elect_leader", "unregister",
})  # fmt: skip
NONE = {"kind": "STOP", "broker": 0, "value": 0}


@dataclass(frozen=True)
class Setting:
    """A healthy partition of ``factor`` replicas among ``slots`` brokers, and the plan that is asked about."""

    slots: int
    factor: int
    min_isr: int
    plan: tuple[Mapping[str, Any], ...]
    target: tuple[int, ...] = ()
    unclean: bool = False


STOP, BACK = "STOP", "AWAIT_RETURN"
SETTINGS = (
    Setting(3, 3, 2, ({"kind": STOP, "broker": 0, "value": 1},)),
    Setting(3, 3, 2, ({"kind": STOP, "broker": 1, "value": 0},)),
    Setting(3, 3, 2, ({"kind": "KILL", "broker": 2, "value": 0},)),
    Setting(3, 3, 1, ({"kind": STOP, "broker": 0, "value": 1},)),
    Setting(3, 3, 2, ({"kind": "SET_MIN_ISR", "broker": 0, "value": 1},)),
    Setting(3, 3, 2, ({"kind": "ELECT_UNCLEAN", "broker": 0, "value": 0},)),
    Setting(3, 3, 2, ({"kind": "UNREGISTER", "broker": 1, "value": 0},)),
    Setting(3, 3, 2, ({"kind": STOP, "broker": 0, "value": 1},), unclean=True),
    Setting(2, 2, 1, tuple({"kind": k, "broker": b, "value": 1} for b in (0, 1) for k in (STOP, BACK))),
    Setting(4, 3, 2, ({"kind": "REASSIGN", "broker": 0, "value": 0},), target=(3, 1, 2)),
    Setting(4, 3, 2, ({"kind": "REASSIGN", "broker": 0, "value": 0},), target=(3,)),
)


@dataclass(frozen=True)
class Alarm:
    """A run to a bad outcome: the names and parameters of the controller's steps, from a healthy partition on."""

    outcome: str
    setting: Setting
    steps: tuple[tuple[str, tuple[Any, ...]], ...]
    partition: Mapping[str, Any]


def alarms(setting: Setting, rules: frozenset[str], most: int, seed: int) -> Iterator[Alarm]:
    """Alarms about a setting's plan, with one fault, in random states that faults lead to."""
    shape = Shape(setting.slots, len(setting.plan), 4, rules)
    searches = Searches()
    model = searches.model(shape)
    found = visited(model.beginning([healthy_state(model, setting)]), SearchOptions(limit_states=200_000))
    layout = Layout(model.leaves)
    drawn = random.Random(seed).sample(range(len(found.states)), min(len(found.states), 40 * most))
    made = 0
    for state in drawn:
        plain = model.decode(layout.unpack(found.states[state]))
        if plain["lost"] or plain["taken"] or made == most:
            continue
        plain |= {"faults_left": 1, "plan": list(setting.plan), "length": len(setting.plan), "unclean": False}
        start = PlanStart(shape, model.protocol.state.encode(plain), (0, False))
        searches.search([start])
        outcomes = searches.outcomes(start)
        for outcome in BAD:
            reached = outcomes.get(NAMES[outcome])
            if reached is not None and made < most:
                made += 1
                before = _controllers(
                    model,
                    healthy_state(model, setting),
                    path(found.parents, found.parent_instances, state)[1],
                )
                after = _controllers(model, start.scalars, reached.path)
                end = searches.run(start, reached.path)
                yield Alarm(outcome, setting, (*before, *after), (end[-1][1] if end else plain)["partition"])


def healthy_state(model: Model, setting: Setting) -> Scalars:
    """The state in which all brokers are up and all replicas are in the ISR."""
    replicas, brokers = list(range(setting.factor)), list(range(setting.slots))
    protocol = model.protocol
    assert isinstance(protocol, Planned)
    up = {"registered": True, "epoch": 0, "fenced": False, "in_controlled_shutdown": False}
    partition = {**_EMPTY, "replicas": replicas, "isr": replicas, "leader": 0}
    plain = {
        "partition": partition, "registrations": [up] * setting.slots, "min_insync_replicas": setting.min_isr,
        "unclean_election": setting.unclean, "first_partition_replicas": 0, "complete": replicas, "diminished": True,
        "process": ["UP"] * setting.slots, "returning": brokers, "plan": [NONE] * len(setting.plan), "length": 0,
        "taken": 0, "target": list(setting.target), "faults_left": 4, "lost": False, "unclean": False, "number": 0,
    }  # fmt: skip
    return encode(protocol, plain)


_EMPTY: dict[str, Any] = {
    "adding": [], "removing": [], "elr": [], "last_known_elr": [], "last_known_leader": None, "leader_epoch": 0,
    "partition_epoch": 0, "leader_recovery_state": "RECOVERED", "offline": [],
}  # fmt: skip


def _controllers(model: Model, state: Scalars, path: Sequence[int]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The steps of a run as the controller's protocol has them."""
    interpreter = interpreter_of(model)
    for number in path:
        instance = model.instances[number]
        name, values = instance.action.name, tuple(instance.parameters.values())
        before = model.decode(state)
        after = interpreter.step(state, number).state
        assert after is not None
        state = after
        then = model.decode(state)
        if name in ("join", "drop", "drop_all"):
            now, isr = before["partition"]["isr"], then["partition"]["isr"]
            proposed = [*now, *values] if name == "join" else isr
            if name != "join":
                lagging = [
                    b for b in now if before["process"][b] != "UP" and b != before["partition"]["leader"]
                ]
                proposed = [b for b in now if b not in (values if name == "drop" else lagging)]
            yield "alter_partition", (tuple(sorted(proposed)), None)
        elif name in ("fail_directory", "remove_directory"):
            yield "lose_directory", values
        elif name == "reassign":
            yield "reassign", (tuple(before["target"]),)
        elif name in _SAME:
            if before["partition"] != then["partition"] or name not in (
                "elect_leader",
                "cancel_reassignment",
            ):
                yield name, values
        else:
            assert name in SILENT, name


class OnKafka:
    """Kafka's controller beside the model, for one setting."""

    def __init__(self, setting: Setting, rules: frozenset[str]) -> None:
        sizes = {
            "brokers": setting.slots, "replication_factor": setting.factor, "min_isr": setting.min_isr,
            "max_min_isr": 3, "reassignments": 1, "replication_factor_changes": 1,
            "unclean_election": int(setting.unclean), "leads_elsewhere": 1, "removals": 1, "directories": 1,
            "failovers": 1, "max_elr_entries": 4,
            "max_broker_epoch": 20, "max_leader_epoch": 50, "max_partition_epoch": 50,
        }  # fmt: skip
        self.model = Model(Controller(sizes, rules))
        self._numbers = {
            (i.action.name, tuple(_plain(v) for v in i.parameters.values())): n
            for n, i in enumerate(self.model.instances)
        }

    def run(self, alarm: Alarm, bridge: Bridge) -> tuple[Reproduction, bool]:
        """Kafka's run of an alarm, and whether the model of the controller ends in the alarm's partition."""
        path = tuple(self._numbers[name, tuple(map(_plain, values))] for name, values in alarm.steps)
        state = self.model.first_initial
        interpreter = interpreter_of(self.model)
        for number in path:
            after = interpreter.step(state, number).state
            assert after is not None, str(self.model.instances[number])
            state = after
        end = self.model.decode(state)["partition"]
        same = all(end[name] == value for name, value in alarm.partition.items() if "epoch" not in name)
        return reproduce(
            self.model, ViolatingRun(alarm.outcome, self.model.first_initial, path), bridge
        ), same


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, (list, tuple)) else value


def told(
    setting: Setting, rules: frozenset[str], bridge: Bridge, most: int, seed: int
) -> tuple[int, list[Alarm]]:
    """How many alarms ran, and those that Kafka's controller does not run as told."""
    beside, count, wrong = OnKafka(setting, rules), 0, []
    for alarm in alarms(setting, rules, most, seed):
        result, same = beside.run(alarm, bridge)
        count += 1
        if result.stopped_at is not None or any(result.differences) or not same:
            wrong.append(alarm)
    return count, wrong
