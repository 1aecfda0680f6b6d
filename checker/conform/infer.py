"""Which rules of the model does a Kafka follow? Found from the differences between its answers and the model's.

The search keeps *cases*: answers of Kafka that some set of rules did not explain. It switches the fewest rules that
explain more cases and lose none, and compares under the switched rules again, which gives new cases.
"""

from __future__ import annotations

import itertools
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from highwater.checker.base.problems import InputError
from highwater.checker.base.text import paragraph
from highwater.checker.conform.answers import KafkaAnswers
from highwater.checker.conform.bridge import Bridge
from highwater.checker.conform.cluster_state import ExpectedObservations, Seen
from highwater.checker.conform.comparison import (
    KafkaComparison,
    KafkaDifference,
    StatesComparison,
    StatesResult,
    answer_parts,
    evaluated,
)
from highwater.checker.conform.expectation import Traced, observed_now, trace
from highwater.checker.conform.kafka_request import KafkaRequest, instance_key
from highwater.checker.conform.request_file import ExpectedOutcome
from highwater.checker.conform.requests import requests_of
from highwater.checker.conform.results import KAFKA_THROWS, ConformResult, Key, Plain, by_fields
from highwater.checker.conform.walks import StepDifference, WalkComparison, WalkResult, differing
from highwater.checker.engines.state_graph import Explored
from highwater.checker.scenarios.request import Request
from highwater.model.language import Model
from highwater.model.language.errors import LanguageError
from highwater.model.language.graph import Node, values_of
from highwater.model.language.interpreter import TracedStep, interpreter_of
from highwater.model.language.model import Instance
from highwater.model.language.protocol import Protocol

_OF_A_KIND = 8
"""The most cases of a kind of difference."""
_PAIRS = 3
"""Pairs of rules are tried until they have failed to explain this many kinds of differences."""
_ALIKE = 3
"""The most switches that are tried in place of others which explain as much."""
_ROUNDS = 6
"""The most comparisons of a scenario."""

Switches = frozenset[str]
"""Rules that are switched against those of a scenario."""
Compare = Callable[[Request, KafkaComparison | WalkComparison], ConformResult]
"""Runs a comparison, with progress."""


@dataclass(frozen=True, eq=False)
class TrialCase:
    """An answer of Kafka that some rules do not explain.

    ``state`` has the model's state before it, by leaf. ``operation``: of a request, or the key of a step.
    ``answer``, ``before`` and ``after`` are the bridge's answer and observations.
    """

    trial: Trial
    key: Key
    state: Mapping[str, int]
    operation: object
    answer: int
    before: Seen
    after: Seen


class Trial(ABC):
    """A scenario, its comparisons with Kafka under several rules, and its cases."""

    def __init__(self, request: Request, bridge: Bridge, explore: Callable[[Model], Explored]) -> None:
        self.request, self.bridge, self.explore = request, bridge, explore
        self.protocol: type[Protocol] = request.scenario.protocol
        self.cases: list[TrialCase] = []
        self._models: dict[tuple[Switches, type[Model]], Model | None] = {}

    def model(self, switches: Switches, kind: type[Model] = Model) -> Model | None:
        """The model with these rules switched; None if it does not exist."""
        known = switches & frozenset(self.protocol.rules)
        if (known, kind) not in self._models:
            rules = {name: not self.request.rules[name] for name in known}
            try:
                self._models[known, kind] = self.request.with_rules(rules).model(kind)
            except (InputError, LanguageError):
                self._models[known, kind] = None
        return self._models[known, kind]

    def otherwise(self, switches: Switches) -> tuple[str, dict[str, bool]]:
        """The nearest profile with these rules switched, and the rules that are otherwise there."""
        on = {name for name, is_on in self.request.rules.items() if is_on != (name in switches)}
        profiles = self.protocol.profiles
        name = min(profiles, key=lambda n: (len(profiles[n].rules ^ on), n != self.request.profile))
        return name, {rule: rule in on for rule in sorted(profiles[name].rules ^ on)}

    @abstractmethod
    def compare(self, model: Model, run: Compare) -> tuple[ConformResult, KafkaComparison | WalkComparison]:
        """Compare a model with Kafka. Its differences become cases. Raises InputError if Kafka does not answer."""

    @abstractmethod
    def outcomes(self, model: Model, case: TrialCase) -> object:
        """The model's answers in a case, as plain values; None if it has none."""

    @abstractmethod
    def explains(self, model: Model, case: TrialCase) -> bool:
        """True if the model answers as Kafka does."""

    def explained(self, switches: Switches, case: TrialCase) -> bool:
        """True if the case is explained with these rules switched."""
        model = self.model(switches)
        return model is not None and self.explains(model, case)

    def outcome(self, switches: Switches, case: TrialCase) -> object:
        """The model's answers in a case with these rules switched; None if it has none."""
        model = self.model(switches)
        return None if model is None else self.outcomes(model, case)

    def _scalars(self, model: Model, case: TrialCase, seen: Mapping[str, int]) -> tuple[int, ...] | None:
        """The state of a case in a model; None if it has none. ``seen`` gives what its own model lacks."""
        found = []
        for leaf, start in zip(model.leaves, model.initial[0], strict=True):
            value = case.state.get(leaf.path, seen.get(leaf.path, start))
            if not leaf.low <= value <= leaf.high and leaf.bound is None:
                return None
            found.append(int(value))
        return tuple(found)

    def _add(self, key: Key, cases: Iterator[TrialCase]) -> None:
        known = sum(case.key == key for case in self.cases)
        self.cases += itertools.islice(cases, max(0, _OF_A_KIND - known))


class _Untraced(Model):
    """A model without actions: only its states count."""

    instances = cached_property(lambda self: list[Instance]())


class StatesTrial(Trial):
    """A scenario of the controller. Kafka takes each path once."""

    def __init__(self, request: Request, bridge: Bridge, explore: Callable[[Model], Explored]) -> None:
        super().__init__(request, bridge, explore)
        self.answers: KafkaAnswers | None = None
        self._traced: dict[tuple[Model, object], list[Traced]] = {}
        self._requests: dict[Model, dict[object, KafkaRequest]] = {}
        self._now: dict[Model, list[tuple[str, Node]]] = {}

    def model(self, switches: Switches, kind: type[Model] = _Untraced) -> Model | None:
        """The model with these rules switched, by default without its actions; None if it does not exist."""
        return super().model(switches, kind)

    def compare(self, model: Model, run: Compare) -> tuple[ConformResult, KafkaComparison]:
        """Compare in every state."""
        comparison = KafkaComparison(model, self.explore)
        mine = KafkaAnswers(self.bridge, comparison.setup, comparison.requests, keeps=True)
        if self.answers is None or self.answers.scenario != mine.scenario:
            self.answers = mine
        comparison.answers = answers = self.answers
        result = run(self.request, comparison)
        assert isinstance(result, StatesResult)
        for key, found in result.more.items():
            if key[1] != (KAFKA_THROWS,):
                self._add(key, (self.case(comparison, answers, key, one) for one in found))
        return result, comparison

    def case(
        self, comparison: StatesComparison, answers: KafkaAnswers, key: Key, one: KafkaDifference
    ) -> TrialCase:
        """A case from a difference and a Kafka's answers."""
        assert one.request is not None
        state = comparison.graph.scalars(one.state)
        leaves = {leaf.path: value for leaf, value in zip(comparison.model.leaves, state, strict=True)}
        operation = _operation(comparison.requests[one.request])
        return TrialCase(self, key, leaves, operation, *answers.one(one.path, one.request))

    def _trace(self, model: Model, case: TrialCase) -> list[Traced]:
        """The traced request, once for each order of its events."""
        key = model, case.operation
        if key not in self._traced:
            if model not in self._requests:
                self._requests[model] = {_operation(r): r for r in requests_of(model.protocol)}
            found = self._requests[model].get(case.operation)
            self._traced[key] = trace(model, found) if found else []
        return self._traced[key]

    def outcomes(self, model: Model, case: TrialCase) -> list[ExpectedOutcome] | None:
        """The outcomes of the request that the model describes, one for each order of its events."""
        if model not in self._now:
            self._now[model] = observed_now(model)
        now = self._now[model]
        state = self._scalars(model, case, case.before)
        if state is None:
            return None
        values = map(int, values_of([node for _, node in now], state))
        if dict(zip((name for name, _ in now), values, strict=True)) != case.before:
            return None
        known = (one for one in self._trace(model, case) if values_of([one.described], state)[0])
        return [evaluated(one, state) for one in known]

    def explains(self, model: Model, case: TrialCase) -> bool:
        """True if an order of the request's events leads to Kafka's answer and observation."""
        error, rest = answer_parts(case.answer)
        return any(
            self.bridge.errors.get(outcome.error) == error
            and (outcome.answer or 0) == rest
            and outcome.after == case.after
            for outcome in self.outcomes(model, case) or ()
        )


def _operation(request: KafkaRequest) -> str:
    return json.dumps(request.operation)


class WalksTrial(Trial):
    """A scenario of whole clusters. Kafka walks again for each comparison."""

    def compare(self, model: Model, run: Compare) -> tuple[ConformResult, WalkComparison]:
        """Compare along walks."""
        comparison = WalkComparison(model, self.explore)
        result = run(self.request, comparison)
        assert isinstance(result, WalkResult)
        for key, found in result.more.items():
            self._add(key, (self.case(comparison, key, one) for one in found))
        return result, comparison

    def case(self, comparison: WalkComparison, key: Key, one: StepDifference) -> TrialCase:
        """A case from a step after which a Kafka differs."""
        model, state = comparison.model, comparison.graph.scalars(one.before)
        leaves = {leaf.path: value for leaf, value in zip(model.leaves, state, strict=True)}
        return TrialCase(self, key, leaves, _step(model.instances[one.path[-1]]), one.outcome, {}, one.seen)

    def outcomes(self, model: Model, case: TrialCase) -> tuple[int, ...] | str | None:
        """The state after the step; a text if the model takes no such step."""
        state = self._scalars(model, case, {})
        if state is None:
            return None
        instance = next((one for one in model.instances if _step(one) == case.operation), None)
        if instance is None or interpreter_of(model).refusals(state, instance):
            return "not taken"
        return TracedStep(instance).after(state)

    def explains(self, model: Model, case: TrialCase) -> bool:
        """True if the model's step leads to Kafka's observation, or the model has no step where Kafka has none."""
        after = self.outcomes(model, case)
        if not isinstance(after, tuple):
            return after is not None and case.answer != 0
        return not case.answer and not differing(ExpectedObservations(model)(after), case.after)


def _step(instance: Instance) -> object:
    return instance_key(instance.action.name, dict(instance.parameters))


Results = list[tuple[Trial, ConformResult, KafkaComparison | WalkComparison]]


@dataclass
class Inferred:
    """The rules that a Kafka follows, and what they do not explain.

    ``switched`` has the rules that are switched against the scenarios' own; ``explains`` has for each of them the
    cases that come back without it. ``results`` are the comparisons under the switched rules.
    """

    switched: Switches
    explains: Mapping[str, Sequence[TrialCase]]
    first: Counter[Key]
    """The numbers of differences under the scenarios' own rules."""
    results: Results
    comparisons: int
    or_else: Mapping[Switches, Sequence[Switches]]
    """For switches, others with which the scenarios show no difference either."""

    @property
    def differences(self) -> int:
        """The number of differences that no rule explains."""
        return sum(result.differences.total() for _, result, _ in self.results)

    def follows(self) -> Iterator[tuple[type[Protocol], str, dict[str, bool]]]:
        """For each protocol the nearest profile, and the rules that Kafka has otherwise."""
        for protocol, trial in {e.protocol: e for e, _, _ in self.results}.items():
            here = (r for r in self.switched if any(c.trial.protocol is protocol for c in self.explains[r]))
            yield protocol, *trial.otherwise(frozenset(here))

    def lines(self, version: str) -> Iterator[str]:
        """The profiles, the switched rules with what they explain, and what no rule explains."""
        for protocol, profile, others in self.follows():
            but = "".join(f", with {rule} {'on' if on else 'off'}" for rule, on in others.items())
            follows = "is nearest to" if self.differences else "follows"
            whole = "" if not _ended(self.results) else ", as far as it was compared"
            yield paragraph(f"Kafka {version} {follows} {profile}{but} ({protocol.name}){whole}")
        if self.differences:
            yield paragraph(f"  no rule explains {self.differences:,} differences")
        for rule in sorted(self.switched):
            stated = next(e.protocol.rules[rule] for e, _, _ in self.results if rule in e.protocol.rules)
            yield paragraph(f"  {self._switch(rule)} [{stated.source}]: {stated.sentence}")
            for same in (s for switched, others in self.or_else.items() if rule in switched for s in others):
                yield paragraph(f"    or as well: {', '.join(map(self._switch, sorted(same)))}")
            for kind, fields in self._kinds(rule):
                yield paragraph(f"    explains {kind}: {', '.join(fields)}: {self.first[kind, fields]:,}")

    def _kinds(self, rule: str) -> list[Key]:
        return list(dict.fromkeys(case.key for case in self.explains[rule]))

    def _switch(self, rule: str) -> str:
        own = next(e.request.rules[rule] for e, _, _ in self.results if rule in e.protocol.rules)
        return f"{rule} {'off' if own else 'on'}"

    def to_json(self) -> Plain:
        """The profiles, the switched rules, and what each explains, as plain data."""
        return {
            "follows": [
                {"protocol": protocol.name, "profile": profile, "otherwise": others}
                for protocol, profile, others in self.follows()
            ],
            "switched": {
                self._switch(rule): by_fields("of", [(key, self.first[key]) for key in self._kinds(rule)])
                for rule in sorted(self.switched)
            },
            "comparisons": self.comparisons,
        }


def infer(trials: Sequence[Trial], run: Compare) -> Inferred:
    """Find the fewest rules to switch so that Kafka answers as the model. Raises InputError as ``compare`` does."""
    return _Search(trials, run).result()


class Explaining:
    """Finds the fewest switched rules that explain cases."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self.all = trials
        self.rules = list(dict.fromkeys(name for e in trials for name in e.protocol.rules))
        self.refused: set[Switches] = set()
        self.equal: dict[Switches, list[Switches]] = {}
        """For switches that were chosen, others that explain as many cases."""
        self._known: dict[tuple[Switches, TrialCase], bool] = {}
        self._pairs = _PAIRS

    def explained(self, switches: Switches, case: TrialCase) -> bool:
        """True if a case is explained with these rules switched."""
        key = switches, case
        if key not in self._known:
            self._known[key] = case.trial.explained(switches, case)
        return self._known[key]

    def explaining(self, found: Switches, cases: Sequence[TrialCase]) -> Switches | None:
        """``found`` and the fewest further switches that explain all these cases; None if none do."""
        while not all(self.explained(found, case) for case in cases):
            better = self.better(found, cases, cases)
            if better is None:
                return None
            found = better
        return found

    def better(
        self, found: Switches, cases: Sequence[TrialCase], all_cases: Sequence[TrialCase]
    ) -> Switches | None:
        """The fewest further switches that explain the most of these cases and lose none of ``all_cases``."""
        failing = [case for case in cases if not self.explained(found, case)]
        if not failing:
            return None
        held = [case for case in all_cases if self.explained(found, case)]
        one = failing[0]
        for size in (1, 2) if self._pairs else (1,):
            gains = dict[Switches, int]()
            for some in self._trials(found, one, size):
                trial = found ^ some
                if trial in self.refused or not self.explained(trial, one):
                    continue
                if all(self.explained(trial, case) for case in held):
                    gains[trial] = sum(self.explained(trial, c) for c in failing)
            best = [trial for trial, gain in gains.items() if gain == max(gains.values())]
            if best:
                best.sort(key=lambda t: min(len(e.otherwise(t)[1]) for e in self.all))
                self.equal[best[0] ^ found] = [trial ^ found for trial in best[1:]]
                return best[0]
        self._pairs -= bool(self._pairs)
        return None

    def _trials(self, found: Switches, case: TrialCase, size: int) -> Iterator[Switches]:
        """Each rule alone, or each pair of a rule that changes the model's outcome in a case and another rule."""
        if size == 1:
            yield from (frozenset({rule}) for rule in self.rules)
            return
        now = case.trial.outcome(found, case)
        for rule in self.rules:
            if case.trial.outcome(found ^ {rule}, case) not in (now, None):
                yield from (frozenset({rule, other}) for other in self.rules if other != rule)


def _ended(results: Results) -> bool:
    """True if a comparison ended early, for another reason than the number of states."""
    return any(result.stopped_by not in (None, "states") for _, result, _ in results)


class _Search(Explaining):
    def __init__(self, trials: Sequence[Trial], run: Compare) -> None:
        super().__init__(trials)
        self.run, self.comparisons = run, 0

    def result(self) -> Inferred:
        """Compare, switch rules, and compare again, until no case is left that other rules explain."""
        found, results = Switches(), self._compared(Switches())
        first = Counter[Key]()
        for _, result, _ in results:
            first.update(result.differences)
        for _ in range(_ROUNDS - 1):
            if _ended(results):
                break
            switched = self._needed(self._switched(found))
            if switched == found:
                break
            try:
                results, found = self._compared(switched), switched
            except InputError:
                self.refused.add(switched)
        explains = {
            rule: [case for case in self._cases() if self._lost(case, found, found - {rule})]
            for rule in sorted(found)
        }
        or_else = {}
        if found and not _ended(results) and not any(result.differences for _, result, _ in results):
            for switched, others in self.equal.items():
                if switched <= found:
                    same = [other for other in others[:_ALIKE] if self._holds(found ^ switched ^ other)]
                    or_else[switched] = same
        return Inferred(found, explains, first, results, self.comparisons, or_else)

    def _holds(self, switches: Switches) -> bool:
        try:
            results = self._compared(switches)
        except InputError:
            return False
        return not _ended(results) and not any(result.differences for _, result, _ in results)

    def _compared(self, switches: Switches) -> Results:
        self.comparisons += 1
        found = []
        for trial in self.all:
            model = trial.model(switches, Model)
            if model is None:
                raise InputError("conform: these rules do not fit together")
            found.append((trial, *trial.compare(model, self.run)))
        return found

    def _cases(self) -> Iterator[TrialCase]:
        return (case for trial in self.all for case in trial.cases)

    def _lost(self, case: TrialCase, before: Switches, after: Switches) -> bool:
        return self.explained(before, case) and not self.explained(after, case)

    def _switched(self, found: Switches) -> Switches:
        """Switch rules for one kind of difference after another."""
        for key in dict.fromkeys(case.key for case in self._cases()):
            while better := self.better(
                found, [c for c in self._cases() if c.key == key], list(self._cases())
            ):
                found = better
        return found

    def _needed(self, found: Switches) -> Switches:
        """The switches without those that explain nothing."""
        for rule in sorted(found):
            if not any(self._lost(case, found, found - {rule}) for case in self._cases()):
                found -= {rule}
        return found
