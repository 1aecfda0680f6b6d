"""Run a gate: choose and order the entries, compare them, and explain the differences; report the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from highwater.checker.base.problems import InputError, Status
from highwater.checker.comparing import differences
from highwater.checker.comparing.differences import Comparison
from highwater.checker.comparing.differences import compare as compare_states
from highwater.checker.comparing.gate.baseline import (
    GRAPH,
    Baseline,
    EntryState,
    EntryVerdict,
    GateInterrupted,
    compare,
    fingerprints,
    run_all,
    sort_key,
)
from highwater.checker.comparing.gate.entries import PROOF, SCENARIO, Facts, GateEntry, rules_on_nowhere
from highwater.checker.comparing.revisions import (
    Image,
    RestoredModel,
    Revision,
    UnknownImageError,
    checked_out,
    last_change,
)
from highwater.checker.report import counterexample
from highwater.checker.report.page.run import ShownRun, of_example
from highwater.checker.runner import Reuse
from highwater.checker.scenarios.model_key import KEPT, engine_key
from highwater.checker.scenarios.search import EngineError
from highwater.model.language import LanguageError
from highwater.model.language.interpreter import Interpreter
from highwater.model.versions import versions

Key = tuple[str, str]

_PROOF_COST = 5_000_000
"""In the order of entries, a proof counts like a scenario with this number of states."""


@dataclass(frozen=True)
class Options:
    """How a gate runs. ``budget`` is in seconds (None: no limit). At most ``explain`` scenarios are explained.

    With ``strict``, a change of a protocol that no scenario detects fails the gate. ``reuse`` decides whether the facts
    of unchanged entries are taken from an earlier gate.
    """

    names: tuple[str, ...] = ()
    budget: float | None = None
    only_changed: bool = False
    explain: int = 2
    processes: int | None = None
    quiet: bool = False
    strict: bool = False
    reuse: Reuse = Reuse.NEVER


@dataclass
class Gate:
    """The result of a gate.

    If ``revisions`` is True, the entries are compared with the git revision ``against`` instead of the baseline.
    Otherwise ``against`` is the revision that explains differences from the baseline.
    """

    baseline: Baseline
    strict: bool = False
    verdicts: list[EntryVerdict] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)
    against: str | None = None
    revisions: bool = False
    explained: list[Comparison] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False

    @property
    def status(self) -> Status:
        """The exit status of the gate.

        An interruption takes precedence over a difference, and a difference over an entry that was not run.
        """
        states = {v.state for v in self.verdicts}
        if self.interrupted:
            return Status.INTERRUPTED
        if states & {EntryState.DIFFERENT, EntryState.FAILED}:
            return Status.VIOLATED
        if EntryState.NOT_RUN in states:
            return Status.INCONCLUSIVE
        return Status.VIOLATED if self.strict and self.unseen else Status.OK

    @property
    def unseen(self) -> list[str]:
        """The protocols and scenarios with other expressions, if no fact differs. A strict gate fails if there are any.

        If protocols differ, their scenarios are left out.
        """
        protocols = [v.entry.name for v in self.verdicts if v.state is EntryState.CHANGED]
        if sum(not v.passes for v in self.verdicts) > len(protocols):
            return []
        return protocols or [v.entry.name for v in self.verdicts if v.passes and v.graph_changed]

    def count(self, state: EntryState) -> int:
        """The number of entries in this state."""
        return sum(v.state is state for v in self.verdicts)

    def sort(self) -> None:
        """Sort the verdicts by kind and name."""
        self.verdicts.sort(key=lambda v: sort_key(v.entry.key))


def with_baseline(baseline: Baseline, options: Options) -> Gate:
    """Run a baseline's entries, compare the results, and explain differences.

    An explanation compares the model with the git revision that last changed the baseline. Raises InputError for a
    baseline without facts, which would always pass.
    """
    if not baseline.facts:
        raise InputError(f"{baseline.path}: it has no facts; `highwater gate --update` writes them")
    gate = Gate(baseline, options.strict)
    all_entries = baseline.entries()
    known = {e.key for e in all_entries}
    entries = _chosen(all_entries, options.names)
    unlisted = [e for e in baseline.select.entries(baseline.root) if e.key not in known]
    gate.notes += rules_on_nowhere(all_entries)
    gate.unlisted = [] if options.names else [e.name for e in unlisted]
    _run(gate, _ordered(baseline, entries, options, gate), baseline.facts, options)
    _explain_by_history(gate, options)
    gate.sort()
    return gate


def with_revision(baseline: Baseline, revision: str, options: Options) -> Gate:
    """Compare each scenario that a baseline selects with another revision.

    Only scenarios whose expressions differ are run, in both revisions. Proofs are not compared.
    """
    gate = Gate(baseline, options.strict, against=revision, revisions=True)
    entries = _chosen(baseline.select.entries(baseline.root), options.names)
    gate.notes.append("only scenarios are compared between revisions, not proofs and widest models")
    entries = [e for e in entries if e.kind == SCENARIO]
    gate.notes += rules_on_nowhere(entries)
    with checked_out(revision, baseline.root) as old:
        images = _images(old, entries)
        for entry in entries:
            if "error" in images[entry.key]:
                gate.notes.append(
                    f"{entry.name} cannot be compared: in {revision}: {images[entry.key]['error']}"
                )
        entries = [e for e in entries if "error" not in images[e.key]]
        prints = fingerprints(entries, processes=options.processes, quiet=options.quiet)
        touched = []
        for entry in entries:
            if prints[entry.key] is not None and prints[entry.key] == _print_of(images[entry.key]):
                gate.verdicts.append(
                    EntryVerdict(entry, EntryState.SKIPPED, note="the expressions are the same")
                )
            else:
                touched.append(entry)
        try:
            before: dict[Key, Facts] = {}
            for entry, ran in run_all(
                [(e, images[e.key]) for e in touched],
                processes=options.processes,
                budget=options.budget,
                quiet=options.quiet,
            ):
                if ran is not None and ran.facts is not None:
                    before[entry.key] = ran.facts
                else:
                    note = (
                        "the budget was used up" if ran is None else f"{revision}: {ran.error or ran.stopped}"
                    )
                    gate.verdicts.append(EntryVerdict(entry, EntryState.NOT_RUN, note=note))
            _run(gate, [e for e in touched if e.key in before], before, options)
        except GateInterrupted:
            gate.interrupted = True
        _explain(gate, images, options)
    gate.sort()
    return gate


def updated(baseline: Baseline, options: Options) -> tuple[Baseline, Gate]:
    """Run every entry that a baseline selects. Returns the new baseline, and its comparison with the old baseline.

    Raises InputError if a selected name matches no scenario, because such a name would silently select nothing.
    """
    missing = baseline.select.unmatched(baseline.root)
    if missing is not None:
        raise InputError(f"{baseline.path}: select.scenarios: no scenario is called {missing}")
    entries = sorted(
        baseline.select.entries(baseline.root), key=lambda e: -_cost(baseline.facts.get(e.key, {}), e)
    )
    new = Baseline(baseline.path, baseline.select, engine_key())
    gate = Gate(baseline)
    try:
        jobs = [(entry, None) for entry in entries]
        for entry, ran in run_all(jobs, processes=options.processes, quiet=options.quiet):
            assert ran is not None
            before = baseline.facts.get(entry.key)
            if ran.facts is not None:
                new.facts[entry.key] = ran.facts
            if before is not None or ran.facts is None or ran.broken:
                gate.verdicts.append(compare(entry, before or ran.facts or {}, ran))
    except GateInterrupted:
        gate.interrupted = True
    gate.sort()
    return new, gate


# --- the entries and their order --------------------------------------------------------------------


def _chosen(entries: Sequence[GateEntry], names: Sequence[str]) -> list[GateEntry]:
    if not names:
        return list(entries)
    found = [e for e in entries if any(fnmatchcase(e.name, name) for name in names)]
    for name in names:
        if not any(fnmatchcase(e.name, name) for e in entries):
            raise InputError(f"{name}: the baseline has no such scenario or proof")
    return found


def _cost(known: Facts, entry: GateEntry) -> int:
    return _PROOF_COST if entry.kind == PROOF else int(known.get("distinct_states", 1_000_000))


def _ordered(baseline: Baseline, entries: list[GateEntry], options: Options, gate: Gate) -> list[GateEntry]:
    """The entries in the order in which they run: the most expensive first.

    With a budget or ``only_changed``, entries with a changed model come first, and cheap entries before expensive
    ones. With ``only_changed``, the unchanged entries are left out, and ``gate`` gets a SKIPPED verdict for each.
    """
    costs = {e.key: _cost(baseline.facts[e.key], e) for e in entries}
    if options.budget is None and not options.only_changed:
        return sorted(entries, key=lambda e: -costs[e.key])
    prints = fingerprints(entries, processes=options.processes, quiet=options.quiet)
    graphs = {e.key: baseline.facts[e.key].get(GRAPH) for e in entries}
    untouched = {key for key, graph in graphs.items() if graph is not None and prints[key] == graph}
    if options.only_changed:
        if baseline.engine != engine_key():
            gate.notes.append("the engine is not that of the baseline: no entry is skipped")
        else:
            note = "the model and the engine are those of the baseline"
            gate.verdicts += [
                EntryVerdict(e, EntryState.SKIPPED, baseline.facts[e.key], note=note)
                for e in entries
                if e.key in untouched
            ]
            entries = [e for e in entries if e.key not in untouched]
    return sorted(entries, key=lambda e: (e.key in untouched, costs[e.key]))


def _run(gate: Gate, entries: Sequence[GateEntry], before: Mapping[Key, Facts], options: Options) -> None:
    try:
        jobs = [(entry, None) for entry in entries]
        for entry, ran in run_all(
            jobs,
            processes=options.processes,
            budget=options.budget,
            quiet=options.quiet,
            reuse=options.reuse,
        ):
            gate.verdicts.append(compare(entry, before[entry.key], ran))
    except GateInterrupted:
        gate.interrupted = True
    dates = sorted(v.ran.explored_at[:10] for v in gate.verdicts if v.ran.explored_at is not None)
    if dates:
        run = f"{len(dates)} of {len(gate.verdicts)} were not run again: unchanged since {dates[0]}"
        gate.notes.append(f"{run} (--fresh runs all)")


# --- explaining -------------------------------------------------------------------------------------


def _explain_by_history(gate: Gate, options: Options) -> None:
    """Explain differences: compare with the revision that last changed the baseline."""
    baseline, wanted = gate.baseline, _to_explain(gate, options)
    if gate.interrupted or not wanted:
        return
    commit = last_change(baseline.path)
    if commit is None:
        gate.notes.append("git does not know the baseline: no revision explains the difference")
        return
    try:
        with checked_out(commit, baseline.root) as old:
            images = _images(old, [v.entry for v in wanted])
    except InputError as wrong:
        gate.notes.append(f"the difference cannot be explained: {wrong}")
        return
    gate.against = commit[:12]
    for verdict in wanted:
        found = images[verdict.entry.key]
        if "error" in found:
            gate.notes.append(f"{verdict.entry.name}: not explained: in {commit[:12]}: {found['error']}")
        elif verdict.before and _print_of(found) != verdict.before.get(GRAPH):
            gate.notes.append(
                f"{verdict.entry.name}: {commit[:12]}, which last changed the baseline, has another model "
                "than the baseline was written with (a shallow clone?); compare with --against"
            )
            del images[verdict.entry.key]
    _explain(gate, images, options)


def _images(old: Revision, entries: Sequence[GateEntry]) -> dict[Key, Image]:
    """The image of each entry's model in another revision, by the entry's key."""
    found = old.images([e.image_request() for e in entries])
    return {e.key: image for e, image in zip(entries, found, strict=True)}


def _to_explain(gate: Gate, options: Options) -> list[EntryVerdict]:
    """The verdicts to explain: among scenarios with changed expressions, those that do not pass; if all pass, all.

    The smallest scenarios come first; at most ``options.explain`` are returned.
    """
    wanted = [
        v for v in gate.verdicts if v.entry.kind == SCENARIO and v.ran.facts is not None and v.graph_changed
    ]
    wanted = [v for v in wanted if not v.passes] or wanted
    wanted.sort(key=lambda v: (v.ran.facts or {}).get("distinct_states", 0))
    return wanted[: options.explain]


def _explain(gate: Gate, images: Mapping[Key, Image], options: Options) -> None:
    for verdict in _to_explain(gate, options):
        image = images.get(verdict.entry.key)
        if image is None or "error" in image:
            continue
        try:
            request = verdict.entry.request()
            gate.explained.append(compare_states(verdict.entry.name, image, request.model(), request))
        except KeyboardInterrupt:
            gate.interrupted = True
            return
        except (EngineError, LanguageError, UnknownImageError) as wrong:
            gate.notes.append(f"{verdict.entry.name}: not explained: {wrong}")


def _print_of(image: Image) -> str | None:
    try:
        return KEPT.model(RestoredModel(image), image["symmetry"], image["deadlock"])
    except (UnknownImageError, LanguageError):
        return None


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
    found = [f"{kind} {old} is {new} now" for kind, old, new in verdict.renamed]
    facts = [str(d) for d in verdict.differences]
    found += facts[:SHOWN]
    if len(facts) > SHOWN:
        found.append(f"and {len(facts) - SHOWN} more")
    if verdict.note:
        found.append(verdict.note)
    if verdict.differences and not verdict.graph_changed and verdict.before is not None:
        found.append("the expressions are those of the baseline: the engine counts differently")
    for difference in verdict.differences:
        if difference.table == "violated" and difference.before is None:
            found += verdict.ran.runs.get(difference.name, [])[:RUN_LINES]
    return found


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
        "to_new_state": _steps(found.to_new),
        "to_lost_state": _steps(found.to_lost),
    }


def _steps(run: ShownRun | None) -> list[dict[str, str]]:
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
    for explained in gate.explained:
        for nearest in (explained.to_new, explained.to_lost):
            if nearest is not None:
                yield replace(nearest, title=f"{explained.scenario}: {nearest.title}")
