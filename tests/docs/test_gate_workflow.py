"""The workflow of the gate's page runs in a scratch repository."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_language_pages import DOCS
from tests.docs.tutorial import parts, shell
from tests.slow import slow

PAGE = DOCS / "tutorials" / "a-gate-in-your-repository.md"
NAME = ".github/workflows/protocol-gate.yml"
STEP = re.compile(r"^      - (.*?)(?=^      - |\Z)", re.M | re.S)
KEY = re.compile(r"^(?:        )?(name|uses|if|run): (.*)\n((?:          .*\n)*)", re.M)
BREAKING, _ = (part.text for part in parts(PAGE.read_text(encoding="utf-8")) if part.kind == "diff")


def steps(text: str) -> list[dict[str, str]]:
    """The steps of the only job. Lines of a folded text are joined by spaces."""
    found = []
    for step in STEP.findall(text[text.index("    steps:\n") :]):
        keys = {name: value for name, value, _ in KEY.findall(step)}
        keys |= {name: " ".join(more.split()) for name, value, more in KEY.findall(step) if value == ">-"}
        found.append(keys)
    return found


def run_of(text: str, event: str, variable: str) -> Iterator[str]:
    """The commands that run at a GitHub event, in order; ``variable`` replaces GitHub's expression."""
    for step in steps(text):
        asked = re.fullmatch(
            r"github\.event_name == '(\w+)'", step.get("if", f"github.event_name == '{event}'")
        )
        if "run" in step:
            assert asked, step
            if asked[1] == event:
                yield step["run"].replace("${{ vars.HIGHWATER }}", variable)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The tutorial's repository with a baseline, before any change."""
    place = tmp_path / "origin"
    place.mkdir()
    for part in parts(PAGE.read_text(encoding="utf-8")):
        if part.kind == "file":
            (place / part.name).parent.mkdir(parents=True, exist_ok=True)
            (place / part.name).write_text(part.text, encoding="utf-8")
    begun = [
        "git init -q -b main",
        "highwater gate --update register.toml",
        "git add .",
        "git commit -qm begun",
    ]
    for command in begun:
        assert shell(command, place).status == 0
    return place


def checked_out(repository: Path) -> Path:
    """A clone with the whole history, as actions/checkout makes it."""
    place = repository.parent / "work"
    shutil.rmtree(place, ignore_errors=True)
    assert shell(f"git clone -q {repository} {place}", repository).status == 0
    return place


def changed(repository: Path, *diffs: str) -> None:
    for diff in diffs:
        assert shell("git apply -", repository, diff).status == 0
    assert shell("git commit -qam changed", repository).status == 0


def ran(repository: Path, event: str, environment: Path, variable: str) -> tuple[int, str, Path]:
    """Run the workflow's commands until one fails; returns the last status, all output and the directory."""
    work, said, status = checked_out(repository), "", 0
    for command in run_of((work / NAME).read_text(encoding="utf-8"), event, variable):
        result = shell(f'export PATH="{environment}:$PATH"\n{command}', work)
        said, status = said + result.out + result.err, result.status
        if status:
            break
    return status, said, work


@pytest.fixture
def installs_nothing(tmp_path: Path) -> Path:
    """A directory for PATH whose ``python -m pip install`` only prints its argument."""
    place = tmp_path / "bin"
    place.mkdir()
    (place / "python").write_text(
        '#!/bin/sh\nif [ "$1 $2 $3" = "-m pip install" ]; then echo "asked for: $4"; '
        f'else exec {sys.executable} "$@"; fi\n'
    )
    (place / "python").chmod(0o755)
    return place


def test_the_example_to_copy_is_the_page_s() -> None:
    (workflow,) = (p.text for p in parts(PAGE.read_text(encoding="utf-8")) if p.name == NAME)
    assert (DOCS / "examples" / "gate-workflow.yml").read_text(encoding="utf-8") == workflow.split("\n", 1)[1]
    assert [step.get("uses", "").split("@")[0] for step in steps(workflow) if "uses" in step] == [
        "actions/checkout",
        "actions/setup-python",
        "actions/upload-artifact",
    ]
    assert "fetch-depth: 0" in workflow


@slow("runs the workflow in processes; the tutorial's test runs its gate in this one")
def test_a_pull_request_that_changes_something_fails(repository: Path, installs_nothing: Path) -> None:
    changed(repository, BREAKING)
    status, said, work = ran(repository, "pull_request", installs_nothing, "git+https://…")
    assert (status, "asked for: git+https://…" in said) == (1, True), said
    assert (work / "gate.json").exists()
    code = (work / "register.py").read_text(encoding="utf-8").splitlines()
    line = next(i for i, text in enumerate(code, 1) if "another replica has it" in text)
    assert f"register.py:{line}" in said
    assert "another replica has it" in said
