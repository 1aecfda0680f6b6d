"""``highwater diff``: find the states in which two sets of rules behave differently."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from highwater.checker.base.files import JsonOutput
from highwater.checker.base.problems import InputError, Status, worst
from highwater.checker.base.text import folded
from highwater.checker.commands.options import (
    allow_code_option,
    html_option,
    json_option,
    limit_seconds_option,
    quiet_option,
)
from highwater.checker.report.page.content import PageOutput
from highwater.checker.report.page.run import ShownRun
from highwater.checker.scenarios import scenario_files
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.scenario_files import Scenario
from highwater.errors import unknown

if TYPE_CHECKING:
    from highwater.checker.engines.solver.terms import Limits
    from highwater.checker.report.solver_results import DifferenceResult


@click.command(short_help="Find states where two sets of rules behave differently.")
@click.argument("names", metavar="[A [B]]", nargs=-1)
@click.option(
    "--kafka",
    "kafkas",
    multiple=True,
    metavar="VERSION|DIR",
    help="Compare two Kafkas instead: give this option twice. Then A, B… are scenarios to compare in.",
)
@click.option(
    "--in", "within", metavar="SCENARIO", help="Scenario whose parameters both use.  [default: see above]"
)
@click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    help="Set a parameter of both sides; may repeat.",
)
@click.option("--profile", metavar="NAME", help="B is A's scenario under this profile.")
@click.option("--rule", "rules", metavar="NAME=on|off", multiple=True, help="Switch a rule of B; may repeat.")
@click.option("--each-rule", is_flag=True, help="Compare A with each rule in which B differs, one by one.")
@click.option(
    "--action", "actions", metavar="NAME", multiple=True, help="Compare only this action; may repeat."
)
@click.option("--any-state", is_flag=True, help="Also compare from states that violate invariants.")
@click.option(
    "--sample", type=click.IntRange(1), metavar="N", help="With --kafka: N states, or N random walks."
)
@click.option(
    "--junit",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="With --kafka: write the first difference as a Java test.",
)
@allow_code_option
@limit_seconds_option
@json_option
@html_option("the states that tell them apart")
@quiet_option("the verdicts")
def diff(
    names: tuple[str, ...],
    kafkas: tuple[str, ...],
    within: str | None,
    settings: tuple[str, ...],
    profile: str | None,
    rules: tuple[str, ...],
    each_rule: bool,
    actions: tuple[str, ...],
    any_state: bool,
    sample: int | None,
    junit: str | None,
    limit_seconds: float | None,
    json_file: str | None,
    html: str | None,
    quiet: bool,
) -> Status:
    """Compare each action under two sets of rules, A and B, from every state that satisfies the invariants.

    A and B are each a profile, or a scenario that stands for its rules. Without B, the second set is A with --profile
    and --rule. Both use the parameters of one scenario: A, or --in, or else the largest standard scenario of the
    profile that checks every invariant. If an action differs, a state near the initial one is shown, with both
    outcomes. A field that exists only under A or only under B is not compared.

    With --kafka twice, both Kafkas get the same requests in the same states; see docs/changes.md.

    Exit status: 0 equal, 1 different, 2 bad request, 3 inconclusive (stopped at a limit), 130 interrupted.
    """
    output, page = JsonOutput(json_file, quiet=quiet), PageOutput(html)
    if kafkas:
        from highwater.checker.commands.kafka_diff import compare_releases

        if within or each_rule or actions or any_state:
            raise InputError("--in, --each-rule, --action and --any-state compare rules, not Kafkas")
        overrides = Overrides.parse(settings, rules, profile)
        return compare_releases(names, kafkas, overrides, sample, limit_seconds, output, page, junit)
    if sample or junit:
        raise InputError("--sample and --junit need --kafka")
    if not 1 <= len(names) <= 2:
        raise InputError("name A, and B if it is another profile or scenario")
    first, second = _requests(names[0], names[1] if names[1:] else None, within, settings, profile, rules)
    known = [action.name for action in first.scenario.protocol.actions()]
    for name in actions:
        if name not in known:
            raise InputError(
                "--action: " + unknown(f"action of {first.scenario.definition.name}", name, known)
            )
    runs: list[ShownRun] = []
    pairs = [("", second)]
    if each_rule:
        changed = [rule for rule, on in second.rules.items() if first.rules[rule] != on]
        pairs = [(rule, first.with_rules({rule: second.rules[rule]})) for rule in changed]
    results: list[DifferenceResult] = []
    from highwater.checker.engines.solver.terms import Limits
    from highwater.checker.report.page.run import differences as shown

    limits = Limits(limit_seconds)
    try:
        for rule, other in pairs:
            results.append(result := _compare(first, other, rule, actions, any_state, limits, output))
            runs += shown(result.models, result.sides, result.found.actions)
            for line in folded(result.lines(witnesses=not quiet)):
                output.say(line)
            if result.found.stopped_by:
                break
    finally:
        output.write([result.to_json() for result in results])
    if html is not None:
        output.note(page.write(first, runs, "no difference found"))
    return worst(result.status for result in results)


def _requests(
    a: str,
    b: str | None,
    within: str | None,
    settings: tuple[str, ...],
    profile: str | None,
    rules: tuple[str, ...],
) -> tuple[Request, Request]:
    """The requests for both sets of rules, with the parameters of one scenario."""
    if b is None and profile is None and not rules:
        raise InputError("name a second set of rules: B, --profile NAME or --rule NAME=on|off")
    if b is not None and profile is not None:
        raise InputError("--profile and B both name the second set of rules: give one")
    if _is_scenario(a):
        if within is not None:
            raise InputError("--in needs A to be a profile, and A is a scenario")
        scenario, base = scenario_files.find(a), None
    elif within is not None:
        scenario, base = scenario_files.find(within), a
    else:
        scenario, base = _written_for(a, profile if b is None or _is_scenario(b) else b), a
    first = Request.of(scenario, Overrides.parse(settings, (), base))
    if b is not None and _is_scenario(b):
        other, switched = scenario_files.find(b), Overrides.parse(settings, rules, None)
        if other.protocol is not scenario.protocol:
            raise InputError(
                f"{b} is of {other.definition.name}, and {scenario.name} of {scenario.definition.name}: "
                "only rules of one protocol can be compared"
            )
        second = Request.of(scenario, switched)
        values = other.rule_values(other.profile, other.rules)
        return first, replace(second.with_rules({**values, **switched.rules}), profile=other.profile)
    second = Request.of(scenario, Overrides.parse(settings, rules, b or profile or base))
    return first, second.with_rules({})


def _is_scenario(name: str) -> bool:
    return scenario_files.is_path(name) or name in scenario_files.titles()


def _written_for(profile: str, other: str | None) -> Scenario:
    """The standard scenario that gives the parameters to compare ``profile`` with the profile ``other``.

    Preferably it is the profile's largest scenario that changes no rule and checks every invariant.
    """
    known = scenario_files.standard()
    found = [s for s in known if s.profile == profile and (other is None or other in s.protocol.profiles)]
    if found:
        return min(found, key=_preference)
    names = {p for scenario in known for p in scenario.protocol.profiles} | set(scenario_files.titles())
    if profile not in names:
        see = "`highwater list` names scenarios, `highwater show PROTOCOL` its profiles"
        raise InputError(unknown("profile or scenario", profile, names, see))
    raise InputError(f"no standard scenario is written for {profile}: name one with --in SCENARIO")


def _preference(scenario: Scenario) -> tuple[bool, bool, int]:
    """A sort key: first scenarios that change no rule, then those that check every invariant, then the largest."""
    checks_all = scenario.properties is None or scenario_files.INVARIANTS in scenario.properties
    return bool(scenario.rules), not checks_all, -(scenario.expectation.distinct_states or 0)


def _compare(
    first: Request,
    second: Request,
    rule: str,
    actions: tuple[str, ...],
    any_state: bool,
    limits: Limits,
    output: JsonOutput,
) -> DifferenceResult:
    from highwater.checker.engines.solver.difference import differences, only_in_one
    from highwater.checker.engines.solver.induction import with_helpers
    from highwater.checker.report.solver_results import DifferenceResult

    def progress(action: str, seconds: float) -> None:
        output.progress(f"{rule or first.scenario.name}: {action} ({seconds:.2f} s)")

    one, two = with_helpers(first).model(), second.without_goals().model()
    found = differences(one, two, any_state=any_state, actions=actions, limits=limits, progress=progress)
    return DifferenceResult((first, second), (one, two), found, rule, only_in_one(one, two), any_state)
