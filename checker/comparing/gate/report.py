"""The report of a gate, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from highwater.checker.comparing import differences
from highwater.checker.comparing.gate.comparison import EntryState, EntryVerdict
from highwater.checker.comparing.gate.gating import Gate
from highwater.checker.report import counterexample
from highwater.checker.report.page.run import ShownRun, of_example
from highwater.checker.scenarios.model_key import engine_key
from highwater.model.language.interpreter import Interpreter
from highwater.model.versions import versions

SHOWN = 8
"""The number of differences of an entry that are printed; the JSON has all."""
RUN_LINES = 60


def summary(gate: Gate) -> str:
    """One line with the number of entries in each state."""
    counts = [f"{gate.count(state)} {state}" for state in EntryState if gate.count(state)]
    what = f"compared with {gate.against}" if gate.revisions else f"of {gate.baseline.path}"
    nothing = "interrupted" if gate.interrupted else "nothing to run"
    return f"{len(gate.verdicts)} {what}: {', '.join(counts) or nothing}"


def unseen_lines(gate: Gate) -> Iterator[str]:
    """Lines about changes that no fact shows, with the reason why a strict gate fails."""
    if not gate.unseen:
        return
    yield f"other expressions, but the same facts in every scenario: {', '.join(gate.unseen)}"
    for found in gate.explained:
        if cases := sum(a.gained + a.lost + a.otherwise for a in found.actions):
            yield f"{found.scenario} has other steps in {cases:,} cases; its counts are equal all the same"
    if gate.strict:
        yield "--strict: no fact shows the change: add a scenario that does, or accept it by `highwater gate --update`"


def lines(gate: Gate) -> Iterator[str]:
    """The lines of the report for people."""
    for verdict in gate.verdicts:
        if verdict.state not in (EntryState.SAME, EntryState.SKIPPED):
            yield from _verdict(verdict)
    yield from _why(gate)
    if gate.unlisted:
        yield f"selected, but not in the baseline (--update adds them): {', '.join(gate.unlisted)}"
    yield from gate.notes
    yield from unseen_lines(gate)
    if gate.verdicts:
        yield summary(gate)


def last_lines(gate: Gate) -> Iterator[str]:
    """The last lines of the report: changes that no fact shows, and the summary."""
    yield from unseen_lines(gate)
    yield summary(gate)


def _verdict(verdict: EntryVerdict) -> Iterator[str]:
    seconds = f" ({verdict.ran.seconds:.1f} s)" if verdict.ran.seconds else ""
    yield f"{verdict.entry.name}: {verdict.state}{seconds}"
    yield from (f"  {line}" for line in verdict_lines(verdict))


def verdict_lines(verdict: EntryVerdict) -> list[str]:
    """The lines about one entry, with the counterexamples of new violations."""
    said = [f"{kind} {old} is {new} now" for kind, old, new in verdict.renamed]
    found = [str(d) for d in verdict.differences]
    said += found[:SHOWN]
    if len(found) > SHOWN:
        said.append(f"and {len(found) - SHOWN} more")
    if verdict.note:
        said.append(verdict.note)
    if verdict.differences and not verdict.graph_changed and verdict.before is not None:
        said.append("the expressions are those of the baseline: the engine counts differently")
    for difference in verdict.differences:
        if difference.table == "violated" and difference.before is None:
            said += verdict.ran.runs.get(difference.name, [])[:RUN_LINES]
    return said


def _why(gate: Gate) -> Iterator[str]:
    changed = [v for v in gate.verdicts if v.passes and v.state is not EntryState.SKIPPED and v.graph_changed]
    if changed:
        yield f"the expressions changed, the facts did not: {', '.join(v.entry.name for v in changed)}"
    for found in gate.explained:
        yield ""
        yield f"{found.scenario}, compared with {gate.against}:"
        yield from (f"  {line}" for line in differences.lines(found))
    if gate.explained:
        yield ""


def as_json(gate: Gate) -> dict[str, Any]:
    """The whole gate as plain data, in the form of ``checker/comparing/gate/gate.schema.json``."""
    return {
        "baseline": str(gate.baseline.path),
        "against": gate.against,
        "status": int(gate.status),
        "entries": [_entry(v) for v in gate.verdicts],
        "unlisted": gate.unlisted,
        "explained": [_comparison(c) for c in gate.explained],
        "unseen": gate.unseen,
        "strict": gate.strict,
        "notes": gate.notes,
        "engine": engine_key(),
        "versions": versions("gate"),
    }


def _entry(verdict: EntryVerdict) -> dict[str, Any]:
    return {
        "kind": verdict.entry.kind,
        "name": verdict.entry.name,
        "state": str(verdict.state),
        "seconds": round(verdict.ran.seconds, 3),
        "expressions_changed": verdict.graph_changed,
        "renamed": [{"kind": k, "before": a, "after": b} for k, a, b in verdict.renamed],
        "differences": [vars(difference) for difference in verdict.differences],
        "facts": verdict.ran.facts,
        "note": verdict.note,
    }


def _comparison(found: differences.Comparison) -> dict[str, Any]:
    return {
        "scenario": found.scenario,
        "same_expressions": found.same_graph,
        "renamed": [{"kind": k, "before": a, "after": b} for k, a, b in found.renamed],
        "settings": found.settings,
        "fields": found.fields,
        "actions_gone": found.actions_gone,
        "actions_new": found.actions_new,
        "properties": found.properties,
        "actions": [vars(change) for change in found.actions],
        "states_in_both": found.states,
        "whole": found.whole,
        "depth": found.depth,
        "new_states": found.new_states,
        "lost_states": found.lost_states,
        "to_new_state": _run(found.to_new),
        "to_lost_state": _run(found.to_lost),
    }


def _run(run: ShownRun | None) -> list[dict[str, str]]:
    steps = () if run is None else differences.steps_of(run)
    return [{"sentence": sentence, "changes": changes} for sentence, changes in steps]


def new_runs(gate: Gate) -> Iterator[ShownRun]:
    """The runs to new violations and to states that only one revision reaches, titled by scenario."""
    for verdict in gate.verdicts:
        new = [d.name for d in verdict.differences if d.table == "violated" and d.before is None]
        found = [verdict.ran.violations[name] for name in new if name in verdict.ran.violations]
        model = verdict.entry.request().model() if found else None
        for violation in found:
            assert model is not None
            example = counterexample.follow(model, Interpreter(model), violation)
            run = of_example(model, violation, example)
            yield replace(run, title=f"{verdict.entry.name}: {run.title}")
    for comparison in gate.explained:
        for nearest in (comparison.to_new, comparison.to_lost):
            if nearest is not None:
                yield replace(nearest, title=f"{comparison.scenario}: {nearest.title}")
