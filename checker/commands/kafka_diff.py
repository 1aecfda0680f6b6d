"""``highwater diff --kafka A --kafka B``: what changed between two Kafkas, found by running both."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from highwater.checker.base.files import JsonOutput
from highwater.checker.base.problems import InputError, Status
from highwater.checker.base.text import paragraph
from highwater.checker.commands.conform import Run, beside, jars_of, kafka_of, note_new_fields
from highwater.checker.conform.answers import KafkaAnswers
from highwater.checker.conform.bridge import Bridge
from highwater.checker.conform.infer import (
    Explaining,
    StatesTrial,
    Switches,
    Trial,
    TrialCase,
    WalksTrial,
)
from highwater.checker.conform.junit import JunitFile
from highwater.checker.conform.release_comparison import ReleaseComparison, ReleaseWalks
from highwater.checker.conform.request_file import RequestFile
from highwater.checker.conform.results import ConformResult, Example, Key, Plain, Sample
from highwater.checker.report.page.content import PageOutput
from highwater.checker.report.page.run import ShownRun, taken
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import Model
from highwater.model.replication.protocol import Replication
from highwater.model.versions import versions
from highwater.traces.reports.text import count

_OF_KAFKA = "kafka_4_2"
"""The profile of the model that chooses states and walks."""
_WALKED = (
    "replication/small-messages", "replication/small-crash", "replication/small-reassign",
    "replication/small-min-isr", "replication/small-shutdown",
)  # fmt: skip
"""The scenarios of whole clusters that are compared if no scenario is named, besides all of Kafka's controller."""
_STATES, _WALKS = 800, 100
"""Then the most states, and the number of walks, of each scenario."""
_KINDS = 5
"""The most kinds of answers that a change lists."""
_CASES = 6
"""The most differences of a kind from which the rule is found."""


Rules = frozenset[tuple[str, bool]]
"""Rules by which two Kafkas differ, each with True if it is on in the second."""


@dataclass
class _Change:
    """One thing that changed: kinds of answers that differ by the same rules, and the one with the shortest path.

    ``rules``: the rules by which the Kafkas differ, each with True if it is on in the second; None if no rule of the
    model explains the kinds.
    """

    rules: Mapping[str, bool] | None
    request: Request
    example: Example
    length: int
    run: ShownRun
    kinds: Counter[Key] = field(default_factory=Counter)
    alike: Sequence[Rules] = ()
    """Other rules that explain the kinds as well."""

    @property
    def order(self) -> tuple[bool, int]:
        """Changes with a rule first, then those with short paths."""
        return self.rules is None, self.length

    def lines(self, number: int) -> Iterator[str]:
        """The rule, the shortest path with both answers, and the other kinds."""
        yield ""
        if self.rules is None:
            yield paragraph(f"{number}. no rule of the model: {', '.join(self.example.content['differs'])}")
        for rule, on in (self.rules or {}).items():
            stated = self.request.scenario.protocol.rules[rule]
            yield paragraph(
                f"{number}. {rule} is now {'on' if on else 'off'} [{stated.source}]: {stated.sentence}"
            )
        for rules in self.alike:
            names = ", ".join(f"{rule} {'on' if on else 'off'}" for rule, on in sorted(rules))
            yield paragraph(f"    or as well: {names}")
        yield from (f"  {line}" if line else line for line in self.example.lines)
        for (kind, fields), number in self.kinds.most_common(_KINDS):
            yield paragraph(f"    {number:,} of {kind}: {', '.join(fields)}")
        if (more := len(self.kinds) - _KINDS) > 0:
            yield f"    and {count(more, 'more kind')} of answers"

    def to_json(self) -> Plain:
        """The change as plain data."""
        return {
            "rules": None if self.rules is None else dict(self.rules),
            "scenario": self.request.scenario.name,
            "example": self.example.content,
            "kinds": [
                {"of": kind, "differs": list(f), "count": n} for (kind, f), n in self.kinds.most_common()
            ],
        }


def _fit(explaining: Explaining, switches: Switches, cases: Sequence[TrialCase]) -> bool:
    """True if these switched rules explain all cases."""
    return all(explaining.explained(switches, case) for case in cases)


class KafkaDiff:
    """The comparison of two running Kafkas in several scenarios."""

    def __init__(self, first: Bridge, second: Bridge, run: Run) -> None:
        self.first, self.second, self.run = first, second, run
        self.results: list[tuple[Request, ConformResult]] = []
        self._known: list[tuple[Switches, list[Switches]]] = []
        """Rules that explained cases of the first Kafka, each with those that then explained the second's."""
        self._found: list[tuple[list[Rules], _Change]] = []
        """For each kind of difference in a scenario the rules that explain it, each of them alone, and the change."""

    @property
    def changes(self) -> list[_Change]:
        """The changes in the order of the report. The fewest rules explain what rules explain."""
        left, found = list(self._found), list[_Change]()
        while left:
            votes = Counter(rules for candidates, _ in left for rules in candidates)
            rules, _ = votes.most_common(1)[0] if votes else (None, 0)
            of_key = left[0][1].kinds.keys()
            here = [p for p in left if (p[1].kinds.keys() == of_key if rules is None else rules in p[0])]
            left = [pair for pair in left if pair not in here]
            change = min((one for _, one in here), key=lambda one: one.length)
            kinds = sum((one.kinds for _, one in here), Counter[Key]())
            alike = [r for r in here[0][0] if r != rules and all(r in candidates for candidates, _ in here)]
            chosen = None if rules is None else dict(sorted(rules))
            found.append(replace(change, rules=chosen, alike=alike, kinds=kinds))
        return sorted(found, key=lambda change: change.order)

    def compare(self, request: Request) -> None:
        """Compare both Kafkas in a scenario, and add what differs to ``changes``."""
        model, explore = request.model(), partial(self.run.explore, request)
        self.first.stop = self.run.stop
        if issubclass(request.scenario.protocol, Replication):
            walks = ReleaseWalks(model, explore, self.first)
            result = self.run.compare(request, walks)
            trial = WalksTrial(request, self.second, explore)
            explaining = Explaining([trial])
            for key in result.examples:
                more = walks.sides_of(result, key)[:_CASES]
                cases = [
                    [trial.case(walks, key, side) for side in sides] for sides in zip(*more, strict=True)
                ]
                self._add(request, walks, result, key, self._rules(explaining, trial, cases))
        else:
            states = ReleaseComparison(model, explore, self.first)
            states.answers = KafkaAnswers(self.second, states.setup, states.requests, keeps=True)
            result = self.run.compare(request, states)
            of_states = StatesTrial(request, self.second, explore)
            explaining = Explaining([of_states])
            for key in result.examples:
                found = result.more.get(key, [])[:_CASES]
                cases = [
                    [of_states.case(states, a, key, one) for one in found]
                    for a in (states.of_first, states.answers)
                ]
                self._add(request, states, result, key, self._rules(explaining, of_states, cases))
        self.results.append((request, result))

    def _add(
        self,
        request: Request,
        comparison: ReleaseComparison | ReleaseWalks,
        result: ConformResult,
        key: Key,
        rules: list[Rules],
    ) -> None:
        found = result.examples[key]
        (example,) = comparison.shown(result, self.second, 1, [key])
        kinds = Counter({key: result.differences[key]})
        run = _shown(comparison.model, key, comparison.instances_of(found), example)
        self._found.append((rules, _Change(None, request, example, len(found.path), run, kinds)))

    def _rules(
        self, explaining: Explaining, trial: Trial, cases: Sequence[Sequence[TrialCase]]
    ) -> list[Rules]:
        """The rules by which the two sides of these cases differ, as the second has them: the fewest, or others as few.

        Rules that explained other cases are tried first. A case that the model does not describe has no part.
        """
        first_side = cases[0] if cases else ()
        described = [n for n, case in enumerate(first_side) if trial.outcome(Switches(), case) != []]
        if not described:
            return []
        cases = [[side[n] for n in described] for side in cases]
        own = trial.request.rules
        known = [(mine, [t for t in found if _fit(explaining, t, cases[1])]) for mine, found in self._known]
        for mine, found in known:
            if found and _fit(explaining, mine, cases[0]):
                break
        else:
            if (first := explaining.explaining(Switches(), cases[0])) is None:
                return []
            if (second := explaining.explaining(first, cases[1])) is None:
                return []
            mine = first
            found = [second, *(first ^ one for one in explaining.equal.get(first ^ second, ()))]
            self._known.append((mine, found))
        return [
            frozenset((rule, own[rule] != (rule in theirs)) for rule in mine ^ theirs) for theirs in found
        ]

    def lines(self) -> Iterator[str]:
        """The verdict, and each change."""
        changes = self.changes
        sizes = Counter[str]()
        for _, result in self.results:
            sizes.update({"states": result.states, f"{result.unit}s": result.size})
        amount = ", ".join(f"{number:,} {name}" for name, number in sizes.items())
        by_rule = sum(change.rules is not None for change in changes)
        changed = f"{len(changes)} CHANGE{'S' * (len(changes) != 1)}, {by_rule} by rules of the model,"
        verdict = changed if changes else "no difference"
        yield paragraph(
            f"Kafka {self.first.version} and Kafka {self.second.version}: {verdict} in "
            f"{count(len(self.results), 'scenario')}: "
            f"{amount}"
        )
        for request, result in self.results:
            if result.stopped_by not in (None, "states"):
                yield f"  {request.scenario.name}: not every {result.whole} was compared: {result.stopped_by}"
        for number, change in enumerate(changes, 1):
            yield from change.lines(number)


def _shown(model: Model, key: Key, path: Sequence[int], example: Example) -> ShownRun:
    """The path to a difference as a run for a page. The last step's note has the request and both answers."""
    *steps, last = taken(model, model.initial[0], path)
    request = example.content.get("request")
    then = f"Then {json.dumps(request)}. " if request else ""
    sides = (", ".join(f"{name} {value}" for name, value in row.items()) for row in example.content["kafkas"])
    note = f"{then}The first Kafka: {next(sides)}. The second: {next(sides)}."
    title = f"{key[0]}: {', '.join(key[1])}"
    return ShownRun(title, model.protocol.name, (*steps, replace(last, note=note)))


def compare_releases(
    names: Sequence[str],
    kafkas: Sequence[str],
    overrides: Overrides,
    sample: int | None,
    limit_seconds: float | None,
    output: JsonOutput,
    page: PageOutput,
    junit: str | None,
) -> Status:
    """Compare two Kafkas in the scenarios ``names``; in a standard selection if there are none.

    Returns VIOLATED if they differ, INCONCLUSIVE if a limit ended the comparison, else OK.
    """
    if len(kafkas) != 2:
        raise InputError("diff: name two Kafkas: --kafka A --kafka B")
    test = None if junit is None else JunitFile(Path(junit), output)
    options = SearchOptions(workers=1 if sample else 0, limit_seconds=limit_seconds, all_states=True)
    requests = [_request(name, overrides) for name in names]
    with ExitStack() as stack:
        first, second = (stack.enter_context(Bridge(jars_of(k, (), output.quiet))) for k in kafkas)
        stack.enter_context(beside(test, second))
        note_new_fields(second, output)
        run = Run(second, options, output, Sample(sample), None, test)
        found = KafkaDiff(first, second, run)
        for request in requests or _selection(overrides):
            if not names:
                walks = issubclass(request.scenario.protocol, Replication)
                run.options = replace(options, limit_states=None if walks else _STATES)
                run.selection = Sample(sample or _WALKS if walks else sample)
            found.compare(request)
            if run.came:
                break
        for line in found.lines():
            output.say(line)
        changes = found.changes
        for change in changes:
            if test is not None and isinstance(change.example.file, RequestFile):
                test.write(change.example.file)
    output.write(
        {
            "kafkas": [kafka_of(first), kafka_of(second)],
            "changes": [change.to_json() for change in changes],
            "scenarios": [
                {"scenario": request.scenario.name, **result.to_json([])} for request, result in found.results
            ],
            "versions": versions("conform"),
        }
    )
    if page.target is not None:
        title = f"Kafka {first.version} and Kafka {second.version}"
        output.note(page.write_about(title, [], [c.run for c in changes], "there is no difference"))
    if run.came:
        return Status.INTERRUPTED
    ended = [result.stopped_by not in ((None,) if names else (None, "states")) for _, result in found.results]
    whole = not any(ended) and (not names or all(result.complete for _, result in found.results))
    return Status.VIOLATED if changes else Status.OK if whole else Status.INCONCLUSIVE


def _selection(overrides: Overrides) -> Iterator[Request]:
    """The standard selection: Kafka's scenarios of the controller, and walks."""
    of_controller = (
        name
        for name in scenario_files.titles()
        if name.startswith(("replication/controller/", "replication/topic/")) and "kafka" in name
    )
    for name in (*of_controller, *_WALKED):
        yield _request(name, replace(overrides, profile=overrides.profile or _OF_KAFKA))


def _request(name: str, overrides: Overrides) -> Request:
    scenario = replace(scenario_files.find(name), properties=())
    return Request.of(scenario, overrides).without_goals().without_symmetry()
