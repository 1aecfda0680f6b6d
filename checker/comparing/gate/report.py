"""The report of a gate, as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from highwater.checker.comparing.gate.comparison import EntryState, EntryVerdict
from highwater.checker.comparing.gate.gating import Gate
from highwater.checker.comparing.gate.sources import Effect
from highwater.checker.comparing.models import differences
from highwater.checker.comparing.models.texts import TextChange
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


def source_summary(gate: Gate) -> Iterator[str]:
    """Lines about changes of the source: their number by effect, and the reason why a strict gate fails."""
    counts = Counter(text.effect for text in gate.texts)
    said = [f"{counts[effect]} {effect}" for effect in Effect if counts[effect]]
    if counts[Effect.UNREACHED] and len(gate.equivalent) == len(gate.explained) > 0:
        compared = f"{len(gate.explained)} of the scenarios with other expressions do the same in every state"
        said.append(f"{compared}, the others were not compared (--explain)")
    if gate.source_unknown:
        said.append(gate.source_unknown)
    if said:
        yield f"source: {'; '.join(said)}"
    if gate.strict and gate.unseen:
        yield "--strict: no scenario sees the difference: add one that does, or accept it by `highwater gate --update`"


def lines(gate: Gate) -> Iterator[str]:
    """The lines of the report for people."""
    for verdict in gate.verdicts:
        if verdict.state not in (EntryState.SAME, EntryState.SKIPPED):
            yield from _verdict(verdict)
    yield from _why(gate)
    if gate.unlisted:
        yield f"selected, but not in the baseline (--update adds them): {', '.join(gate.unlisted)}"
    yield from gate.notes
    yield from source_summary(gate)
    if gate.verdicts:
        yield summary(gate)


def last_lines(gate: Gate) -> Iterator[str]:
    """The last lines of the report: undetected changes of the source, and the summary."""
    if gate.unseen:
        yield from source_summary(gate)
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
    if gate.texts:
        yield ""
        yield f"source that differs from {gate.against}:"
        for effect in Effect:
            own = [text for text in gate.texts if text.effect == effect]
            yield from (f"  {effect}:" for _ in own[:1])
            for text in own:
                yield f"    {text}"
                if text.meaning and text.kind == "changed":
                    yield f"      {text.meaning}"
    if gate.explained or gate.texts:
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
        "texts": [_text(text) for text in gate.texts],
        "source_unknown": gate.source_unknown,
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


def _text(text: TextChange) -> dict[str, Any]:
    return {
        "file": text.file,
        "name": text.name,
        "kind": text.kind,
        "line": text.line,
        "meaning": text.meaning,
        "effect": text.effect,
        "lines": list(text.unused),
        "lines_before": list(text.unused_before),
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
