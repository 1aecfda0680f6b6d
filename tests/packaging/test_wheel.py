"""The wheel: its files, from any build, and that it works when installed."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

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
