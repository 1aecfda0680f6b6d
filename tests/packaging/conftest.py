"""The wheel built from the tree, installed in an environment with only its declared dependencies."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.packaging import release
from tests.packaging.release import ROOT

FOLDERS = release.FOLDERS[1:]
DATE = 1_790_000_000
DISTRIBUTION = "highwater-checker"


def run(*command: object, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command without this process's environment variables."""
    return subprocess.run(
        [str(c) for c in command],
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "HOME": str(cwd), "PYTHONDONTWRITEBYTECODE": "1", **more},
        capture_output=True,
        text=True,
        check=False,
    )


def done(*command: object, cwd: Path, **more: str) -> str:
    """The standard output of a command, which must succeed."""
    result = run(*command, cwd=cwd, **more)
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources, links kept as links, because a build leaves files behind."""
    copy = tmp_path_factory.mktemp("tree") / "highwater"
    release.copy_sources(ROOT, copy)
    return copy


@pytest.fixture(scope="session")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release.built("wheel", tree, tmp_path_factory.mktemp("wheel"), DATE)


@pytest.fixture(scope="session")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` of an environment with the wheel, pytest and their declared dependencies."""
    home = tmp_path_factory.mktemp("environment")
    done(sys.executable, "-m", "venv", "--without-pip", home, cwd=home)
    python = home / "bin/python"
    site = Path(
        done(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home).strip()
    )
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "install"]
    done(*pip, "--no-deps", "--no-index", "--no-compile", wheel, cwd=home)
    (installed,) = distributions(path=[str(site)])
    link([*needed(installed), "pytest"], site)
    script = home / "bin/pytest"  # like pip's script
    script.write_text(f"#!{python}\nimport sys\nfrom pytest import console_main\nsys.exit(console_main())\n")
    script.chmod(0o755)
    return home / "bin"


def link(names: Iterable[str], site: Path) -> None:
    """Link the files of these distributions and their dependencies into another environment."""
    wanted, seen = list(names), set()
    while wanted:
        found = distribution(wanted.pop())
        if found.name in seen:
            continue
        seen.add(found.name)
        wanted += needed(found)
        for file in found.files or ():
            top = site / file.parts[0]
            if file.parts[0] not in ("..", "__pycache__") and not top.exists():
                top.symlink_to(Path(str(found.locate_file(file.parts[0]))))


def needed(found: Distribution) -> list[str]:
    requirements = [Requirement(text) for text in found.requires or ()]
    return [r.name for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})]
