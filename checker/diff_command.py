"""``highwater diff``: whether two sets of rules decide the same in every state, and else where they differ."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click

from checker import scenarios
from checker.options import json_output
from checker.output import JsonOutput
from checker.problems import InputError
from checker.request import Overrides, Request
from checker.status import Status, worst


@click.command(short_help="Where two sets of rules decide differently.")
@click.argument("name", metavar="SCENARIO")
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="Set a parameter, of both.")
@click.option("--from", "base", metavar="PROFILE", help="The first set of rules.  [default: the scenario's]")
@click.option("--profile", metavar="NAME", help="The second set of rules starts from this profile.")
@click.option("--rule", "rules", metavar="NAME=on|off", multiple=True, help="Switch a rule of the second.")
@click.option("--each-rule", is_flag=True, help="Take over each rule in which they differ alone, one by one.")
@click.option("--any-state", is_flag=True, help="Also from states that violate the invariants.")
@click.option(
    "--limit-seconds",
    type=click.FloatRange(0, min_open=True),
    metavar="S",
    help="Stop after so many seconds.",
)
@json_output
@click.option("--quiet", is_flag=True, help="No progress, no states: only the verdicts.")
def diff(
    name: str,
    settings: tuple[str, ...],
    base: str | None,
    profile: str | None,
    rules: tuple[str, ...],
    each_rule: bool,
    any_state: bool,
    limit_seconds: float | None,
    json_file: str | None,
    quiet: bool,
) -> Status:
    """Compare the actions of SCENARIO under its rules and under others (--profile, --rule), for all states.

    For each action: it does the same in both, or a state from which it does not and both outcomes. The states are
    those that satisfy the scenario's invariants; the one shown is as like the initial one as can be.

    Exit status: 0 both are equal, 1 they differ, 2 bad request, 3 inconclusive (a limit was reached first),
    130 interrupted.
    """
    if profile is None and not rules:
        raise InputError("name the other rules: --profile NAME or --rule NAME=on|off")
    scenario = scenarios.find(name)
    first = Request.of(scenario, Overrides.parse(settings, (), base))
    second = Request.of(scenario, Overrides.parse(settings, rules, profile or base))
    output = JsonOutput(json_file)
    pairs = [("", second)]
    if each_rule:
        changed = [rule for rule, on in second.rules.items() if first.rules[rule] != on]
        pairs = [(rule, _with(scenario, settings, base, rule, second.rules[rule])) for rule in changed]
    results: list[dict[str, Any]] = []
    statuses: list[Status] = []
    from checker.solver.limits import Limits

    limits = Limits(limit_seconds)
    try:
        for rule, other in pairs:
            status, said, result = _compare(first, other, rule, any_state, limits, quiet)
            for line in said:
                output.say(line)
            statuses.append(status)
            results.append(result)
            if status in (Status.INTERRUPTED, Status.INCONCLUSIVE):
                break
    finally:
        output.write(results)
    return worst(statuses)


def _with(
    scenario: scenarios.Scenario, settings: tuple[str, ...], base: str | None, rule: str, on: bool
) -> Request:
    switch = f"{rule}={'on' if on else 'off'}"
    return Request.of(scenario, Overrides.parse(settings, [switch], base))


def _compare(
    first: Request, second: Request, rule: str, any_state: bool, limits: Any, quiet: bool
) -> tuple[Status, Iterator[str], dict[str, Any]]:
    from checker.solver.difference import differences, told
    from checker.solver.helpers import helpers

    def progress(action: str, seconds: float) -> None:
        if not quiet:
            print(f"{rule or first.scenario.name}: {action} ({seconds:.2f} s)", file=sys.stderr, flush=True)

    one, two = first.model(), second.model()
    own = helpers(first.scenario.definition).invariants
    one.properties += [one.trace_invariant(i) for i in own if i.rule is None or first.rules[i.rule]]
    found = differences(one, two, any_state=any_state, limits=limits, progress=progress)
    different = [name for name, witness in found.actions.items() if witness]
    verdict = "different" if different else "inconclusive" if found.stopped_by else "equal"
    sides = _sides(first, second)

    def lines() -> Iterator[str]:
        name = rule or first.scenario.name
        for action, witness in found.actions.items():
            if witness and not quiet:
                chosen = ", ".join(f"{k}={v}" for k, v in witness.parameters.items())
                yield f"{action}({chosen}) differs ({rule})" if rule else f"{action}({chosen}) differs"
                yield from told(one, witness, sides)
                yield ""
        equal = [a for a, w in found.actions.items() if w is None]
        if found.stopped_by:
            yield f"{name}: stopped ({found.stopped_by}) after {len(found.actions)} actions"
        if different:
            yield f"{name}: different: {', '.join(different)}"
        what = "all states" if any_state else "all states with the invariants"
        if equal:
            yield f"{name}: equal in {what} ({found.seconds:.1f} s): {', '.join(equal)}"

    status = {
        None: Status.VIOLATED if different else Status.AS_PROMISED,
        "interrupted": Status.INTERRUPTED,
    }.get(found.stopped_by, Status.INCONCLUSIVE)
    result = {
        "scenario": first.scenario.name,
        "protocol": first.scenario.definition.name,
        "engine": "z3",
        "question": "difference",
        "parameters": dict(first.parameters),
        "rule": rule or None,
        "rules": {r: [on, second.rules[r]] for r, on in first.rules.items() if second.rules[r] != on},
        "verdict": verdict,
        "stopped_by": found.stopped_by,
        "seconds": round(found.seconds, 6),
        "actions": [
            {"action": name, "equal": True}
            if witness is None
            else {
                "action": name,
                "equal": False,
                "parameters": witness.parameters,
                "before": one.decode(witness.before),
                "first": None if witness.first is None else one.decode(witness.first),
                "second": None if witness.second is None else one.decode(witness.second),
            }
            for name, witness in found.actions.items()
        ],
    }
    return status, lines(), result


def _sides(first: Request, second: Request) -> tuple[str, str]:
    """How the two sets of rules are called."""
    if first.profile != second.profile:
        return str(first.profile), str(second.profile)
    changed = [f"{r} {'on' if on else 'off'}" for r, on in first.rules.items() if second.rules[r] != on]
    other = [
        f"{r} {'on' if second.rules[r] else 'off'}" for r, on in first.rules.items() if second.rules[r] != on
    ]
    return ", ".join(changed) or "first", ", ".join(other) or "second"
