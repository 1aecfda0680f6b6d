"""The workflow of the gate's page runs in a scratch repository."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from tests.docs.test_language_pages import DOCS
from tests.docs.tutorial import parts, shell
from tests.slow import slow

PAGE = DOCS / "tutorials" / "a-gate-in-your-repository.md"
FILES = {part.name: part.text for part in parts(PAGE.read_text()) if part.kind == "file"}
BREAKING, _ = (part.text for part in parts(PAGE.read_text()) if part.kind == "diff")
((_, JOB),) = yaml.safe_load((DOCS / "examples" / "gate-workflow.yml").read_text())["jobs"].items()


def commands(event: str) -> list[str]:
    """The commands that the only job runs at a GitHub event, in order, with a URL for GitHub's variable."""
    found = [step for step in JOB["steps"] if "run" in step and f"'{event}'" in step.get("if", f"'{event}'")]
    return [step["run"].replace("${{ vars.HIGHWATER }}", "git+https://…") for step in found]


def run(command: str, place: Path) -> str:
    done = shell(command, place)
    assert done.status == 0, done.err
    return done.out


def installs_nothing(place: Path) -> Path:
    """A directory for PATH whose ``python -m pip install`` only prints its argument."""
    place.mkdir()
    (place / "python").write_text(
        '#!/bin/sh\nif [ "$1 $2 $3" = "-m pip install" ]; then echo "asked for: $4"; '
        f'else exec {sys.executable} "$@"; fi\n'
    )
    (place / "python").chmod(0o755)
    return place


def test_the_workflow_fetches_the_whole_history() -> None:
    used = [step["uses"].split("@")[0] for step in JOB["steps"] if "uses" in step]
    assert used == ["actions/checkout", "actions/setup-python", "actions/upload-artifact"]
    assert JOB["steps"][0]["with"] == {"fetch-depth": 0}


@slow("runs the workflow in processes; the tutorial's test runs its gate in this one")
def test_a_pull_request_that_changes_something_fails(tmp_path: Path) -> None:
    origin, work, said, status = tmp_path / "origin", tmp_path / "work", "", 0
    for name, text in FILES.items():
        (origin / name).parent.mkdir(parents=True, exist_ok=True)
        (origin / name).write_text(text)
    run("git init -q -b main && highwater gate --update register.toml", origin)
    run("git add . && git commit -qm begun", origin)
    assert shell("git apply -", origin, BREAKING).status == 0
    run(f"git commit -qam changed && git clone -q . {work}", origin)
    path = installs_nothing(tmp_path / "bin")
    for command in commands("pull_request"):
        result = shell(f'export PATH="{path}:$PATH"\n{command}', work)
        said, status = said + result.out + result.err, result.status
        if status:
            break
    assert (status, "asked for: git+https://…" in said) == (1, True), said
    assert (work / "gate.json").exists()
    code = (work / "register.py").read_text().splitlines()
    line = next(i for i, text in enumerate(code, 1) if "another replica has it" in text)
    assert f"register.py:{line}" in said
