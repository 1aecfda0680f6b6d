"""The behaviour of each release of Kafka, found by running it: ``python -m docs.pages.releases VERSION…``.

It compares each release with the one before it, and tries each finding of ``kafka.toml`` on each. The results are
kept in ``releases.json``, by release; with no VERSION all are run again. ``docs/changes.md`` and the table of
``docs/kafka.md`` are written from the kept results.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from docs.pages.markdown import DOCS, FOLDER
from highwater.model.replication.rules import RULES

RELEASES = ("4.0.0", "4.0.2", "4.1.0", "4.1.2", "4.2.1", "4.2.2", "4.3.0", "4.3.1", "4.4.0")
PROFILES = {
    "4.0.0": "kafka_4_0", "4.0.2": "kafka_4_0", "4.1.0": "kafka_4_1_0", "4.1.2": "kafka_4_1", "4.2.1": "kafka_4_2",
    "4.2.2": "kafka_4_2", "4.3.0": "kafka_4_3", "4.3.1": "kafka_4_3", "4.4.0": "kafka_4_4",
}  # fmt: skip
"""The profile of the model with the rules of each release; one test holds each release to its profile."""
HAPPENS, NOT_THERE = "happens", "–"
_KEPT = FOLDER / "releases.json"
_ROOT = DOCS.parent
_FIRST, _LAST = "<!-- by release -->", "<!-- end -->"
_BY_HAND = "## Held against the tickets\n"
"""The heading of the last part of the page of changes, which is written by hand."""


def main(versions: Sequence[str]) -> int:
    """Run the comparisons and findings of these releases, keep the results, and write the pages."""
    kept = (
        json.loads(_KEPT.read_text(encoding="utf-8")) if _KEPT.exists() else {"changes": {}, "findings": {}}
    )
    for version in versions or RELEASES:
        place = RELEASES.index(version)
        if place:
            kept["changes"][version] = changes(RELEASES[place - 1], version)
        kept["findings"][version] = dict(sorted(findings(version)))
        _KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for page, text in pages(kept).items():
        page.write_text(text, encoding="utf-8")
    return 0


def pages(kept: Mapping[str, Any]) -> dict[Path, str]:
    """The pages that are written from kept results, with their texts."""
    table, changed = DOCS / "kafka.md", DOCS / "changes.md"
    before, _, rest = table.read_text(encoding="utf-8").partition(_FIRST)
    after = rest.partition(_LAST)[2]
    by_hand = changed.read_text(encoding="utf-8").partition(_BY_HAND)[2]
    return {
        changed: "\n".join([*_changes_page(kept["changes"]), _BY_HAND]) + by_hand,
        table: f"{before}{_FIRST}\n{''.join(_findings_table(kept['findings']))}{_LAST}{after}",
    }


# --- what changed -------------------------------------------------------------------------------------------


def _run(*arguments: str) -> dict[str, Any]:
    """The JSON of a command. Raises RuntimeError if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "result.json"
        command = [sys.executable, "-m", "highwater", *arguments, "--quiet", "--json", str(target)]
        status = subprocess.run(command, check=False).returncode
        if status not in (0, 1, 3):
            raise RuntimeError(f"{' '.join(arguments)}: exit status {status}")
        found: dict[str, Any] = json.loads(target.read_text(encoding="utf-8"))
        return found


def changes(before: str, after: str) -> dict[str, Any]:
    """The changes between two releases, as the page needs them."""
    found = _run("diff", "--kafka", before, "--kafka", after)
    scenarios = found["scenarios"]
    return {
        "before": before,
        "states": sum(one["states"] for one in scenarios),
        "requests": sum(one.get("requests", 0) for one in scenarios),
        "steps": sum(one.get("steps", 0) for one in scenarios),
        "scenarios": len(scenarios),
        "changes": [
            {
                "rules": change["rules"],
                "scenario": change["scenario"],
                "sentences": change["example"]["sentences"],
                "request": change["example"].get("request"),
                "differs": change["example"]["differs"],
                "answers": change["example"]["kafkas"],
                "kinds": [[kind["of"], kind["differs"], kind["count"]] for kind in change["kinds"]],
            }
            for change in found["changes"]
        ],
    }


def _changes_page(kept: Mapping[str, Any]) -> Iterator[str]:
    yield from (
        "# What each release of Kafka changed",
        "",
        "This page lists what changed in replication from release to release, found by",
        "`highwater diff --kafka A --kafka B`: both get the same requests in the same states, and take the same",
        "walks of whole clusters. Sets are bits: broker 0 is 1, broker 1 is 2; -2147483648 is the broker -1.",
        "`python -m docs.pages.releases` writes this part of the page.",
        "",
        "| from | to | changes | states | requests | steps of walks |",
        "| --- | --- | --- | --- | --- | --- |",
    )
    for after, one in kept.items():
        counts = " | ".join(f"{one[name]:,}" for name in ("states", "requests", "steps"))
        yield f"| {one['before']} | {after} | {len(one['changes']) or 'none'} | {counts} |"
    yield ""
    for after, one in kept.items():
        if one["changes"]:
            yield from (f"## {one['before']} to {after}", "")
        groups = groupby(one["changes"], lambda c: (c["rules"], c["sentences"], c["answers"]))
        for number, (_, changes) in enumerate(groups, 1):
            yield from _change(number, list(changes), one["before"], after)


def _change(number: int, changes: Sequence[Mapping[str, Any]], before: str, after: str) -> Iterator[str]:
    """The lines of changes that have one run and the same two answers."""
    change = changes[0]
    rules: Mapping[str, bool] | None = change["rules"]
    if rules is None:
        kinds = ", ".join(one["kinds"][0][0] for one in changes)
        many = f" ({len(changes)} changes)" if len(changes) > 1 else ""
        yield f"{number}. No rule of the model{many}: {kinds}; {', '.join(change['differs'])}."
    else:
        said = (
            f"`{rule}` {'on' if on else 'off'} ({RULES[rule].source}): {RULES[rule].sentence}"
            for rule, on in rules.items()
        )
        yield f"{number}. {' '.join(said)}"
    yield from ("", f"    In `{change['scenario']}`:", "", "    ```text")
    yield from (f"    {n}. {sentence}" for n, sentence in enumerate(change["sentences"], 1))
    requests = (json.dumps(one["request"]) for one in changes if one["request"])
    yield from (f"    {'or' if n else 'then'}: {request}" for n, request in enumerate(requests))
    yield from ("    ```", "", f"    | | {before} | {after} |", "    | --- | --- | --- |")
    one, other = change["answers"]
    yield from (f"    | {name} | {value} | {other.get(name)} |" for name, value in one.items())
    counts = ", ".join(f"{kind} ({n:,})" for one in changes for kind, _, n in one["kinds"][:6])
    yield from ("", f"    Different answers: {counts}.", "")


# --- findings -----------------------------------------------------------------------------------------------


def findings(version: str) -> Iterator[tuple[str, str]]:
    """Each finding's name, and whether it happens in a release: reproduced in that Kafka's code under its own rules."""
    listed = tomllib.loads((FOLDER / "kafka.toml").read_text(encoding="utf-8"))
    names = {
        f["name"]: f.get("scenario", f"replication/controller/kafka-4.2-{f['name']}")
        for f in listed["finding"]
    }
    command = ("--counterexamples", "--kafka", version, "--profile", PROFILES[version])
    found = _run("conform", *names.values(), *command)["scenarios"]
    for name, scenario in zip(names, found, strict=True):
        runs = scenario["runs"]
        happens = bool(runs) and all(run["reproduced"] for run in runs)
        yield name, HAPPENS if happens else NOT_THERE if not runs else "differs"
    for request in listed["request"]:
        same = _run("conform", "--request", str(_ROOT / request["file"]), "--kafka", version)["same"]
        yield request["name"], HAPPENS if same else NOT_THERE


def _findings_table(kept: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """The rows of the table: findings that some release lacks. Neighbouring releases that are equal share a column."""
    groups = [
        [version for version, _ in those] for _, those in groupby(kept.items(), key=lambda item: item[1])
    ]
    heads = (group[0] if len(group) == 1 else f"{group[0]} to {group[-1]}" for group in groups)
    yield f"| finding | {' | '.join(heads)} |\n| --- |{' --- |' * len(groups)}\n"
    for name in dict.fromkeys(name for found in kept.values() for name in found):
        states = [kept[group[0]].get(name, "") for group in groups]
        seen = [n for n, state in enumerate(states) if state == HAPPENS]
        if len(seen) == len(states):
            continue
        words = (
            state
            if state != NOT_THERE or not seen
            else "fixed"
            if n > seen[-1]
            else "not there yet"
            if n < seen[0]
            else state
            for n, state in enumerate(states)
        )
        yield f"| [{name}](#{_anchor(name)}) | {' | '.join(words)} |\n"


def _anchor(name: str) -> str:
    """The section of a finding on the page."""
    page = (DOCS / "kafka.md").read_text(encoding="utf-8")
    if f"\n## {name}\n" in page:
        return name
    row = next(line for line in page.splitlines() if line.startswith(f"| [{name}](#"))
    return row.partition("(#")[2].partition(")")[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
