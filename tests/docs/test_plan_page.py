"""The page on plans: its command prints the shown output, its tables are complete, and its examples work."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from highwater.checker.plan.answer import NAMES
from highwater.checker.plan.report import TITLES
from highwater.checker.plan.steps import ACTIONS
from tests import recordings
from tests.docs.test_language_pages import DOCS
from tests.docs.tutorial import done
from tests.generation.incident import write_incident

CLUSTERS = "traces/kafka-4.2/clusters"
PAGE = DOCS / "plan.md"
EXAMPLES = DOCS / "examples" / "plan"


@recordings.needs(CLUSTERS)
def test_the_command_prints_the_shown_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "restarts-elr").symlink_to(recordings.folder(CLUSTERS) / "restarts-elr")
    monkeypatch.chdir(tmp_path)
    assert done(PAGE, tmp_path) == 1


def rows(section: str) -> list[list[str]]:
    """The rows of a section's first table, without its head."""
    part = PAGE.read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def test_the_tables_have_every_outcome_and_every_action() -> None:
    assert [row[:2] for row in rows("Outcomes")] == [[f"`{name}`", TITLES[name]] for name in NAMES]
    listed = [re.findall(r"--[\w-]+", row[0])[0].removeprefix("--") for row in rows("Actions")]
    assert listed == list(ACTIONS)


# --- the examples ---------------------------------------------------------------------------------------------

KUBECTL = r"""#!/bin/bash
case $1 in
exec) command=${*: -1}; bash -c "${command//\/var/$PWD/pod/var}" ;;
get) if [ "$2" = pods ]; then printf 'pod/my-cluster-kafka-%s\n' 0 1 2; else cat uid; fi ;;
annotate) echo "$2" >> rolled; echo "new-$2" > uid ;;
esac
"""
"""One that has the metadata log in the folder ``pod``, and gives a pod that is annotated another uid."""
HIGHWATER = """#!/bin/bash
ls $2/*.log > /dev/null && echo "$@" >> checked && test $4 != "$REFUSED"
"""
"""One that refuses the restart of a broker."""


@pytest.mark.parametrize(("refused", "rolled"), [("", [0, 1, 2]), ("1", [0])])
def test_the_job_rolls_no_pod_after_a_refusal(refused: str, rolled: list[int], tmp_path: Path) -> None:
    job, *_ = yaml.safe_load_all((EXAMPLES / "strimzi.yaml").read_text())
    (container,) = job["spec"]["template"]["spec"]["containers"]
    given = {one["name"]: one["value"] for one in container["env"]}
    write_incident(_made(tmp_path / "pod/var/lib/kafka/data-0/kafka-log3"), "09:13")
    (tmp_path / "uid").write_text("old")
    for name, text in (("kubectl", KUBECTL), ("highwater", HIGHWATER)):
        (_made(tmp_path / "bin") / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    (script,) = container["args"]
    ended = subprocess.run(
        [*container["command"], script.replace("/tmp/log", f"{tmp_path}/log")],
        cwd=tmp_path,
        env={**os.environ, **given, "REFUSED": refused, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"},
        check=False,
    )
    assert ended.returncode == bool(refused)
    assert (tmp_path / "rolled").read_text().split() == [f"pod/my-cluster-kafka-{n}" for n in rolled]
    checked = (tmp_path / "checked").read_text().splitlines()
    assert [line.split()[2:] for line in checked] == [
        ["--restart", str(n), "--faults", "1", "--added", "--quiet"] for n in range(len(checked))
    ]


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
