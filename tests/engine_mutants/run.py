"""Plant mutants into copies of this tree, run the fast tests, and print the mutants that no test detects.

    python -m tests.engine_mutants.run --seed 21 --count 40 --out mutants.json

A mutant is tried with the test files that name its module, and, with --whole, a survivor with all fast tests. Each run
ends with its first failure. The file is written after each mutant; a later run continues from it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.engine_mutants import plant

ROOT = Path(__file__).parents[2]
SECONDS = 1800
"""Time limit of a test run. A longer run counts as a hang, which detects the mutant."""
_LEFT_OUT = (".git", ".venv", "*.egg-info", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache")
_NO_TESTS = 5


class Copy:
    """A copy of the tree, with a link to the recordings if there are any."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        shutil.copytree(ROOT, self.root, symlinks=True, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        recordings = ROOT.parent / "shared"
        if recordings.is_dir():
            (folder / "shared").symlink_to(recordings)
        # Tests of packaging and of other revisions need a git repository.
        who = [
            "-c",
            "user.name=mutants",
            "-c",
            "user.email=mutants@example",
            "-c",
            "core.hooksPath=/dev/null",
        ]
        for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "-m", "a copy"]):
            subprocess.run(["git", *who, *words], cwd=self.root, check=True, capture_output=True)

    def noticed(self, mutant: plant.Mutant, tests: list[str], *options: str) -> str | None:
        """The first test that fails with the mutant, or None."""
        path = self.root / mutant.file
        source = path.read_bytes()
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "--no-header",
            *options,
        ]
        environment = {**os.environ, "PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            path.write_bytes(mutant.of(source))
            done = subprocess.run(
                [*command, *tests],
                cwd=self.root,
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "no end"
        finally:
            path.write_bytes(source)
        if done.returncode in (0, _NO_TESTS):
            return None
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return failed[0].split(" ")[1] if failed else f"pytest ended with {done.returncode}"


def naming(root: Path, file: str) -> list[str]:
    """The test files that import a module or pin the texts of commands, those with few imports first."""
    package, _, name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".").rpartition(".")
    module = rf"highwater\.{re.escape(f'{package}.{name}')}\b"
    pattern = re.compile(rf"{module}|from highwater\.{re.escape(package)} import (\([^)]*|.*)\b{name}\b")
    texts = {path: path.read_text() for path in (root / "tests").rglob("test_*.py")}
    found = [
        path for path, text in texts.items() if pattern.search(text) or "tests.transcript import" in text
    ]
    found.sort(key=lambda path: (texts[path].count("highwater."), path))
    return [path.relative_to(root).as_posix() for path in found]


def examine(copy: Copy, mutant: plant.Mutant, whole: bool) -> dict[str, Any]:
    """Try a mutant with the tests that import its module, then, if ``whole``, with all tests."""
    stages: dict[str, tuple[list[str], list[str]]] = {"naming": (naming(ROOT, mutant.file), [])}
    if whole:
        stages["all"] = (["tests"], ["-n", "2", "--dist", "loadgroup"])
    for stage, (tests, options) in stages.items():
        if tests and (by := copy.noticed(mutant, tests, *options)) is not None:
            return {"noticed": stage, "by": by}
    return {"noticed": None, "asked": list(stages)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=21)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--workers", type=int, default=2, help="copies at a time")
    parser.add_argument("--whole", action="store_true", help="try survivors with all fast tests")
    parser.add_argument("--out", type=Path, help="the file of results")
    given = parser.parse_args()
    chosen = plant.chosen(plant.mutants(ROOT), given.seed, given.count)
    known: dict[str, Any] = {}
    if given.out is not None and given.out.exists():
        known = json.loads(given.out.read_text())
    writing = threading.Lock()
    with tempfile.TemporaryDirectory(prefix="highwater-mutants-") as folder:
        free = []
        for number in range(given.workers):
            (Path(folder) / str(number)).mkdir()
            free.append(Copy(Path(folder) / str(number)))

        def one(mutant: plant.Mutant) -> None:
            before = known.get(str(mutant))
            if before is not None and (before["noticed"] or not given.whole or "all" in before["asked"]):
                return
            copy = free.pop()
            found = examine(copy, mutant, given.whole)
            free.append(copy)
            with writing:
                known[str(mutant)] = found
                print(f"{found['noticed'] or 'SURVIVED':9} {mutant}  {found.get('by', '')}", flush=True)
                if given.out is not None:
                    given.out.write_text(
                        json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
                    )

        with ThreadPoolExecutor(given.workers) as pool:
            list(pool.map(one, chosen))
    survivors = [str(mutant) for mutant in chosen if not known[str(mutant)]["noticed"]]
    print(f"{len(chosen)} mutants, {len(survivors)} survived", *survivors, sep="\n  ")


if __name__ == "__main__":
    main()
