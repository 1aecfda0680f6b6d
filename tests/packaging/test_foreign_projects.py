"""A project whose own folders are named ``model``, ``checker``, … works with an installed Highwater."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.packaging.conftest import FOLDERS, run
from tests.slow import slow

SCENARIO = 'protocol = "truncation"\nprofile = "kip_320"\n[parameters]\nmax_records = 1\n'

Row = tuple[tuple[str, ...], str, str, bool, str]
"""The folders, their kind (package or plain), the command, whether with ``--highwater``, and PYTHONPATH."""


def named(row: Row) -> str:
    folders, kind, command, on, path = row
    called = "all" if len(folders) > 1 else folders[0]
    return f"{called} as {kind}, {command}{' --highwater' * on}, PYTHONPATH={path}"


def project(place: Path, folders: tuple[str, ...], kind: str) -> None:
    """Write a project with a scenario; its tests check that imports find the project's own folders."""
    tests = place / "tests"
    tests.mkdir()
    (tests / "__init__.py").touch()
    (place / "small.scenario.toml").write_text(SCENARIO)
    for name in folders:
        (place / name).mkdir()
        (place / name / "own.py").write_text(f"WHOSE = 'the {name} of this project'\n")
        if kind == "package":
            (place / name / "__init__.py").touch()
        (tests / f"test_{name}.py").write_text(
            f"from pathlib import Path\nimport {name}\nfrom {name}.own import WHOSE\n\n"
            f"def test_it_is_ours():\n    assert WHOSE == 'the {name} of this project'\n"
            f"    assert {{Path(p).resolve() for p in {name}.__path__}} == {{Path({str(place / name)!r})}}\n"
        )


def tried(row: Row, environment: Path, place: Path) -> None:
    folders, kind, command, on, path = row
    project(place, folders, kind)
    program, *rest = command.split()
    options = ["-v", "-p", "no:cacheprovider", "--highwater-engine=interpreter", *["--highwater"] * on]
    said = run(environment / program, *rest, *options, cwd=place, **({"PYTHONPATH": path} if path else {}))
    assert said.returncode == 0, f"{said.stdout}\n{said.stderr}"
    passed = set(re.findall(r"^(\S+)::\S+ PASSED", said.stdout, re.MULTILINE))
    assert passed == {*(f"tests/test_{name}.py" for name in folders), *["small.scenario.toml"] * on}


FAST: Row = (FOLDERS, "package", "python -m pytest", True, ".")


def test_all_four_folders_at_once(environment: Path, tmp_path: Path) -> None:
    tried(FAST, environment, tmp_path)


HOW: list[Row] = [
    (FOLDERS, "package", "pytest", True, ""),
    (FOLDERS, "folder", "python -m pytest", False, "."),
    (FOLDERS, "folder", "pytest", True, ""),
]
ALONE: list[Row] = [((name,), *how[1:]) for name in FOLDERS for how in (FAST, *HOW)]


@slow("runs pytest for each of 19 rows; fast with all folders together")
@pytest.mark.parametrize("row", [*HOW, *ALONE], ids=named)
def test_each_way_and_each_folder_alone(row: Row, environment: Path, tmp_path: Path) -> None:
    tried(row, environment, tmp_path)
