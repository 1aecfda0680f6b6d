"""The wheel: its files, from any build, and that it works when installed."""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

import pytest

from tests.packaging.conftest import DISTRIBUTION, FOLDERS, done, run
from tests.packaging.release import ROOT
from tests.slow import slow


def content(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}


def sources(tree: Path) -> dict[str, bytes]:
    """The importable files of the package's folders: name in the wheel → content."""
    files = [(f"highwater/{file.name}", file) for file in (tree / "highwater").iterdir() if file.is_file()]
    for name in FOLDERS:
        files += [
            (f"highwater/{file.relative_to(tree).as_posix()}", file)
            for file in (tree / name).rglob("*")
            if file.is_file()
        ]
    return {name: file.read_bytes() for name, file in files}


def test_the_wheel_has_every_source_and_nothing_else(wheel: Path, tree: Path) -> None:
    built = content(wheel)
    assert built == sources(tree)
    assert {
        "highwater/py.typed",
        "highwater/model/truncation/scenarios/kip-320.toml",
        "highwater/checker/report/result.schema.json",
        "highwater/traces/reports/page.html",
    } <= set(built)
    assert not [name for name in built if "test" in name.split("/")[1]]


@slow("clones and builds; the fast test compares the wheel with the tree")
def test_the_wheel_is_the_same_from_a_git_address(wheel: Path, tree: Path, tmp_path: Path) -> None:
    """Like ``pip install git+…``: links are stored as git stores them."""
    work = tmp_path / "work"
    git = ["git", "-C", tree, f"--git-dir={tmp_path / 'git'}", f"--work-tree={tree}"]
    done(*git, "init", "--quiet", cwd=tmp_path)
    done(*git, "add", "highwater", *FOLDERS, "pyproject.toml", "README.md", "LICENSE", cwd=tmp_path)
    name = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
    done(*git, *name, "commit", "--quiet", "-m", "all", cwd=tmp_path)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-index"]
    address = f"git+file://{tmp_path / 'git'}"
    done(*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", work, address, cwd=tmp_path)
    assert content(next(work.glob("*.whl"))) == content(wheel)


def test_the_wheel_has_one_import_name(environment: Path, tmp_path: Path) -> None:
    program = (
        "import importlib.metadata as m, importlib.util as u\n"
        f"tops = {{file.parts[0] for file in m.distribution({DISTRIBUTION!r}).files}}\n"
        "print(sorted(t for t in tops if t != '..' and not t.endswith('.dist-info')))\n"
        f"print([name for name in {FOLDERS!r} if u.find_spec(name)])\n"
    )
    assert done(environment / "python", "-c", program, cwd=tmp_path) == "['highwater']\n[]\n"


def test_the_command_works_as_installed(environment: Path, tmp_path: Path) -> None:
    """The wheel contains the scenarios, and both forms of the command run."""
    asked = ("check", "truncation/kip-101", "--set", "max_records=1", "--quiet")
    said = run(environment / "python", "-m", "highwater", *asked, cwd=tmp_path)
    assert (said.returncode, "9,841 states" in said.stdout) == (1, True), said.stderr
    listed = done(environment / "highwater", "list", cwd=tmp_path)
    ours = {path.stem for path in (ROOT / "model").rglob("scenarios/*.toml")}
    assert len(ours) > 100
    assert all(name in listed for name in ours)


# --- a project whose own folders are named ``model``, ``checker``, … works with an installed highwater ----


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
