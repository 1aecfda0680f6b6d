"""``highwater conform``: run Kafka's own controller beside the model, and compare every state and request."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from highwater.checker.base.files import JsonOutput, write_text
from highwater.checker.base.problems import InputError, Status, interruption, worst
from highwater.checker.base.text import paragraph
from highwater.checker.commands.options import (
    cache_option,
    json_option,
    limit_seconds_option,
    limit_states_option,
    model_options,
    quiet_option,
    workers_option,
)
from highwater.checker.conform.bridge import Bridge, Jars
from highwater.checker.conform.comparison import KafkaComparison, StatesComparison
from highwater.checker.conform.counterexamples import reproduce
from highwater.checker.conform.fields import new_fields
from highwater.checker.conform.infer import StatesTrial, WalksTrial, infer
from highwater.checker.conform.junit import JunitFile
from highwater.checker.conform.members import walks_of
from highwater.checker.conform.random_walks import WalkedGraph
from highwater.checker.conform.request_file import RequestFile, read_request_file, repeated
from highwater.checker.conform.results import ConformResult, Sample
from highwater.checker.conform.walks import WalkComparison, WalkFile
from highwater.checker.engines import by_name as engines
from highwater.checker.engines.state_graph import Explored
from highwater.checker.runner import LiveLine, ProgressReporter, explore
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.search import SearchOptions
from highwater.model.language import Model
from highwater.model.replication.protocol import Replication
from highwater.model.versions import versions

_MOST_SHOWN = 5
"""The most kinds of differences that are shown in full."""
_KAFKA = "kafka_4_2"
"""The profile with the rules of Kafka 4.2."""


@click.command(short_help="Kafka's own controller under the model: every state, every request.")
@click.argument("names", metavar="SCENARIO...", nargs=-1)
@click.option(
    "--kafka",
    required=True,
    metavar="VERSION|DIR",
    help="A version such as 4.2.1, which Maven fetches once; an unpacked release; or a checkout that is built.",
)
@click.option(
    "--before",
    multiple=True,
    type=click.Path(),
    metavar="PATH",
    help="Classes before Kafka's jars: a directory or a jar; may repeat.",
)
@click.option(
    "--request",
    "request_path",
    metavar="FILE",
    help="Send the request of a file that --save wrote, and compare the answer.",
)
@click.option(
    "--save",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write a file for each kind of difference, for --request.",
)
@click.option(
    "--junit",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the first difference, or the request of --request, as a Java test.",
)
@click.option(
    "--sample",
    type=click.IntRange(1),
    metavar="N",
    help="Compare N states, or take N random walks; --seed chooses them. One thread explores.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    metavar="N",
    help="The seed of --sample.  [default: 0]",
)
@click.option(
    "--depth",
    type=click.IntRange(1),
    metavar="N",
    help="Take the walks of --sample from the initial state, N steps long, without exploring.",
)
@click.option(
    "--counterexamples",
    is_flag=True,
    help="Take the shortest run to each violated property by Kafka's code, and nothing else.",
)
@click.option(
    "--infer",
    "infers",
    is_flag=True,
    help="Find the rules of the model that this Kafka follows, by its answers.",
)
@click.option("--other-paths", is_flag=True, help="Also reach each state by a second path, if it has one.")
@model_options(deadlock=False)
@limit_states_option
@limit_seconds_option
@workers_option
@cache_option
@json_option
@quiet_option("the results")
def conform(
    names: tuple[str, ...],
    kafka: str,
    before: tuple[str, ...],
    request_path: str | None,
    save: str | None,
    junit: str | None,
    sample: int | None,
    seed: int,
    depth: int | None,
    counterexamples: bool,
    infers: bool,
    other_paths: bool,
    overrides: Overrides,
    limit_states: int | None,
    limit_seconds: float | None,
    workers: int | None,
    json_file: str | None,
    quiet: bool,
) -> Status:
    """Compare the model of each SCENARIO with the control managers of a Kafka.

    Explores the scenario, takes Kafka's controller to each state, sends every request there, and compares errors,
    partitions, registrations and the index of ELR members. docs/conform.md lists what is compared, and what is not.

    Exit status: 0 no difference, 1 a difference, 2 bad request, 3 no difference, but not every state was compared (a
    limit, or --sample), 130 interrupted; what was compared until then is reported.
    """
    output = JsonOutput(json_file, quiet=quiet)
    refuse(bool(names) == (request_path is not None), "name scenarios, or --request FILE")
    refuse(junit is not None and counterexamples, "--junit writes a difference, not a counterexample")
    refuse(infers and counterexamples, "--infer compares scenarios: leave out --counterexamples")
    refuse(infers and request_path is not None, "--infer compares scenarios: leave out --request")
    refuse(depth is not None and (sample is None or infers), "--depth is the length of the walks of --sample")
    place = None if request_path is None else Path(request_path)
    file = None if place is None else read_request_file(place)
    test = None if junit is None else JunitFile(Path(junit), output)
    if test is not None and file is not None:
        test.write(file)
    options = SearchOptions(
        workers=workers or 0, limit_states=limit_states, limit_seconds=limit_seconds, all_states=True
    )
    scenarios = [scenario_files.find(name) for name in names]
    if not counterexamples:  # a rule that is switched off may leave a property without a meaning
        scenarios = [replace(scenario, properties=()) for scenario in scenarios]
    requests = [Request.of(s, overrides).without_goals().without_symmetry() for s in scenarios]
    with Bridge(jars_of(kafka, before, quiet)) as bridge, beside(test, bridge):
        if place is not None and file is not None:
            same, lines = repeated(place, file, bridge)
            for line in [*lines, f"Kafka {bridge.version} " + ("answers as expected" if same else "DIFFERS")]:
                output.say(line)
            output.write({"same": same, "kafka": kafka_of(bridge), "versions": versions("conform")})
            return Status.OK if same else Status.VIOLATED
        note_new_fields(bridge, output)
        run = Run(bridge, options, output, Sample(sample, seed, other_paths, depth), save, test)
        statuses, results = [], []
        if infers:
            status, content = run.infer(requests)
            output.write({"kafka": kafka_of(bridge), **content, "versions": versions("conform")})
            return status
        for request in requests:
            status, found = run.reproduce(request) if counterexamples else run.one(request)
            statuses.append(status)
            results.append(found)
            if status == Status.INTERRUPTED:
                break
        output.write({"kafka": kafka_of(bridge), "scenarios": results, "versions": versions("conform")})
    return worst(statuses)


def refuse(condition: bool, message: str) -> None:
    """Raise InputError if the condition holds: options that exclude each other."""
    if condition:
        raise InputError(f"conform: {message}")


def jars_of(kafka: str, before: tuple[str, ...], quiet: bool) -> Jars:
    """The jars of a Kafka, with a line of progress while Maven fetches them."""
    live = LiveLine(quiet=quiet)
    try:
        return Jars.found(kafka, before, live.show)
    finally:
        live.end()


def note_new_fields(bridge: Bridge, output: JsonOutput) -> None:
    """Name the fields of a Kafka that nothing compares."""
    if new := list(new_fields(bridge.fields)):
        output.note(
            paragraph(f"fields of Kafka {bridge.version} that are new and not compared: {', '.join(new)}")
        )


@contextmanager
def beside(test: JunitFile | None, bridge: Bridge) -> Iterator[None]:
    """At the end, write the bridge beside the Java test."""
    yield
    if test is not None:
        test.write_bridge(bridge.classes)


def kafka_of(bridge: Bridge) -> dict[str, str]:
    """The version and the commit of a Kafka, for JSON."""
    return {"version": bridge.version, "commit": bridge.commit}


class Run:
    """The comparisons of one ``highwater conform`` command, all through one bridge to Kafka's code."""

    def __init__(
        self,
        bridge: Bridge,
        options: SearchOptions,
        output: JsonOutput,
        selection: Sample,
        save: str | None,
        test: JunitFile | None,
    ) -> None:
        self.bridge, self.output = bridge, output
        # Several threads would number the states anew in each run.
        self.options = replace(options, workers=1) if selection.sample else options
        self.selection, self.save, self.test = selection, None if save is None else Path(save), test
        self.came = False
        self.until = None if options.limit_seconds is None else time.monotonic() + options.limit_seconds

    def one(self, request: Request) -> tuple[Status, dict[str, Any]]:
        """Compare a scenario with Kafka's code. Returns its exit status and its part of the JSON.

        A scenario of the protocol replication or quorum is compared along walks, any other in each state.
        """
        model = request.model()
        walks = walks_of(type(model.protocol))
        if walks is not None and self.test is not None:
            self.test.refuse_walks()
        sample, explore = self.selection, partial(self.explore, request)
        comparison: KafkaComparison | WalkComparison
        if walks is None:
            comparison = KafkaComparison(model, explore)
        elif sample.sample is None or sample.depth is None:
            comparison = walks(model, explore)
        else:
            graph = WalkedGraph(model, sample.sample, sample.depth, sample.seed)
            comparison = walks(model, lambda _: graph)
        result = self.compare(request, comparison)
        content = self._report(request, result, comparison)
        self._hint(request, bool(result.differences))
        return self._status(result.stopped_by, result.complete, bool(result.differences)), content

    def explore(self, request: Request, model: Model) -> Explored:
        """The graph of a scenario's states under a model of it."""
        with ProgressReporter(request.scenario.name, quiet=self.output.quiet) as progress:
            graph = engines.explore("native")(model, self.options, progress)
        if graph.stopped_by == "interrupted":
            self._interrupt()
        return graph

    def compare(self, request: Request, comparison: StatesComparison | WalkComparison) -> ConformResult:
        """Run a comparison, with progress, until it ends or is stopped."""
        live = LiveLine(quiet=self.output.quiet)

        def progressed(found: ConformResult) -> None:
            differences = f"{found.differences.total():,} differences"
            live(f"{request.scenario.name}: {found.states:,} states, {found.compared}", differences)

        self.bridge.stop = self.stop
        with interruption(self._interrupt):
            result = comparison.run(self.bridge, self.selection, progressed, self.stop)
        live.end()
        self.bridge.stop = lambda: None
        return result

    def infer(self, requests: Sequence[Request]) -> tuple[Status, dict[str, Any]]:
        """Find the rules that Kafka follows. Returns the exit status and the command's part of the JSON."""
        found = infer(
            [
                (WalksTrial if issubclass(r.scenario.protocol, Replication) else StatesTrial)(
                    r, self.bridge, partial(self.explore, r)
                )
                for r in requests
            ],
            self.compare,
        )
        for line in found.lines(self.bridge.version):
            self.output.say(line)
        contents = [
            self._report(trial.request, result, comparison) for trial, result, comparison in found.results
        ]
        stopped = next((r.stopped_by for _, r, _ in found.results if r.stopped_by), None)
        whole = all(result.complete for _, result, _ in found.results)
        return self._status(stopped, whole, bool(found.differences)), {
            "inferred": found.to_json(),
            "scenarios": contents,
        }

    def _report(
        self, request: Request, result: ConformResult, comparison: KafkaComparison | WalkComparison
    ) -> dict[str, Any]:
        """Print a result, and save its examples. Returns the scenario's part of the JSON."""
        shown = comparison.shown(result, self.bridge, _MOST_SHOWN)
        summary, *rest = result.summary(request.scenario.name, self.bridge.version)
        self.output.say(summary)
        for line in rest:
            self.output.note(line)
        if result.stopped_by is not None:
            self.output.say(f"  not every {result.whole} was compared: {result.stopped_by}")
        for number, example in enumerate(shown, 1):
            for line in example.lines:
                self.output.say(line)
            self._save(number, example.file)
        return self._content(request, result.complete, result.to_json(shown))

    def reproduce(self, request: Request) -> tuple[Status, dict[str, Any]]:
        """Replay the shortest counterexample of each violation in Kafka's code.

        Returns the exit status (VIOLATED if Kafka's code behaves differently) and the scenario's part of the JSON.
        """
        name = request.scenario.name
        with ProgressReporter(name, quiet=self.output.quiet) as progress:
            options = replace(self.options, all_states=False)
            explored = explore(request, "native", engines.search("native"), options, progress)
        model = explored.model
        if model is None or explored.stopped_by == "interrupted":
            return Status.INTERRUPTED, {"scenario": name, "complete": False}
        found = [reproduce(model, run, self.bridge) for run in explored.search.violations]
        if not found:
            self.output.say(f"{name}: no property is violated, so there is nothing to reproduce")
        for one in found:
            summary, *rest = one.lines(self.bridge.version)
            self.output.say(f"{name}: {summary}")
            for line in rest:
                self.output.note(line)
        whole = explored.stopped_by is None
        content = self._content(request, whole, {"runs": [one.to_json() for one in found]})
        return self._status(None, bool(found), not all(one.reproduced for one in found)), content

    @staticmethod
    def _content(request: Request, whole: bool, found: dict[str, Any]) -> dict[str, Any]:
        return {
            "scenario": request.scenario.name,
            "profile": request.profile,
            "parameters": dict(request.parameters),
            "rules": dict(request.rules),
            "complete": whole,
            **found,
        }

    @staticmethod
    def _status(stopped_by: str | None, whole: bool, differs: bool) -> Status:
        if stopped_by == "interrupted":
            return Status.INTERRUPTED
        return Status.VIOLATED if differs else Status.OK if whole else Status.INCONCLUSIVE

    def _interrupt(self) -> None:
        self.came = True

    def stop(self) -> str | None:
        """The reason to stop, or None."""
        if self.came:
            return "interrupted"
        late = self.until is not None and time.monotonic() > self.until
        return "limit_seconds" if late else None

    def _hint(self, request: Request, differs: bool) -> None:
        """If Kafka differs and the scenario's rules are not Kafka's, print the option that sets Kafka's rules."""
        if differs and request.profile != _KAFKA:
            has = "every rule on" if request.profile is None else f"the rules of {request.profile}"
            self.output.say(f"  {request.scenario.name} has {has}; Kafka 4.2 has those of --profile {_KAFKA}")

    def _save(self, number: int, content: RequestFile | WalkFile) -> None:
        """Write a difference to a file for ``--save``, and the first difference as a Java test for ``--junit``."""
        if self.test is not None:
            self.test.write(content)
        if self.save is not None:
            self.save.mkdir(parents=True, exist_ok=True)
            file = self.save / f"difference-{number}.json"
            text = msgspec.json.format(msgspec.json.encode(content), indent=2)
            write_text("--save", file, text.decode() + "\n")
            self.output.say(f"  repeat it with: highwater conform --request {file}")
