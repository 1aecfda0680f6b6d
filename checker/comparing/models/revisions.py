"""Other revisions of the protocol: their files from git, and the models that their own source traces."""

from __future__ import annotations

import io
import json
import os
import pkgutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import highwater
from highwater.checker.base.problems import InputError
from highwater.checker.comparing import models
from highwater.checker.comparing.models.pieces import CodePiece
from highwater.checker.comparing.models.restored import Image

OWN = ("highwater", "model", "invariants", "checker", "traces")
"""The folders that a revision of this repository needs to trace its own models. Older ones have no `highwater`."""


Asked = Mapping[str, Any]
"""A scenario to trace: ``scenario``, its name; ``parameters`` and ``rules`` that go over it; ``proof``."""


@dataclass(frozen=True)
class Revision:
    """A revision whose files were laid out in a directory. ``prefix`` is where the baseline's root is in it."""

    name: str
    commit: str
    directory: Path
    prefix: Path

    @property
    def root(self) -> Path:
        """The baseline's root in that revision."""
        return self.directory / self.prefix

    @classmethod
    def present(cls, root: Path) -> Revision:
        """What is here now, as if it were a revision."""
        return cls("now", "", Path(highwater.__file__).parents[1], root.absolute())

    def images(self, asked: Sequence[Asked]) -> list[Image]:
        """The images of scenarios in this revision; ``{"error": …}`` where there is none."""
        lines = self._traced(asked) if asked else []
        if len(lines) != len(asked):
            raise InputError(f"{self.name}: its models cannot be traced: no answer")
        return [json.loads(line) for line in lines]

    def not_executed(
        self, pieces: Mapping[str, Collection[CodePiece]], asked: Sequence[Asked]
    ) -> dict[str, set[CodePiece]]:
        """The pieces of code, by file, that tracing these scenarios does not execute in this revision."""
        if not any(pieces.values()):
            return {}
        with tempfile.TemporaryDirectory(prefix="highwater-gate-") as directory:
            wanted = Path(directory, "pieces.json")
            wanted.write_text(
                json.dumps({os.path.realpath(self.root / f): list(own) for f, own in pieces.items()}),
                encoding="utf-8",
            )
            lines = self._traced(asked, str(wanted))
        left = json.loads(lines[-1])
        return {f: {CodePiece(*p) for p in left[os.path.realpath(self.root / f)]} for f in pieces}

    def _traced(self, asked: Sequence[Asked], *arguments: str) -> list[str]:
        source = pkgutil.get_data(models.__name__, "image.py")
        assert source is not None
        done = subprocess.run(
            [sys.executable, "-I", "-c", source.decode(), str(self.directory), *arguments],
            input="".join(f"{json.dumps(one)}\n" for one in asked),
            capture_output=True,
            text=True,
            check=False,
            cwd=self.root,
        )
        lines = done.stdout.splitlines()
        if done.returncode or not lines:
            said = done.stderr.strip().splitlines()
            raise InputError(f"{self.name}: its models cannot be traced: {said[-1] if said else 'no answer'}")
        return lines


def last_change(path: Path) -> str | None:
    """The commit that last changed a file; None where git does not know the file, or there is no git."""
    found = _git(path.absolute().parent, "log", "-1", "--format=%H", "--", path.name)
    return found or None


@contextmanager
def checked_out(name: str, root: Path) -> Iterator[Revision]:
    """The files of a revision, in a directory that is there while inside.

    ``root`` is a directory of the working tree. Raises InputError where git has no such revision.
    """
    top = _git(root, "rev-parse", "--show-toplevel")
    if top is None:
        raise InputError(f"{root}: not in a git repository, so there is no other revision")
    commit = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if not commit:
        raise InputError(f"{name}: git knows no such revision")
    prefix = root.absolute().relative_to(Path(top))
    wanted = [
        folder
        for folder in OWN
        if _git(Path(top), "cat-file", "-e", f"{commit}:{folder}/__init__.py") is not None
    ]
    paths = wanted if "model" in wanted else [str(prefix)] if prefix.parts else []
    command = ["git", "-C", top, "archive", "--format=tar", commit, *paths]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise InputError(f"{name}: git archive: {done.stderr.decode(errors='replace').strip()}")
    with tempfile.TemporaryDirectory(prefix="highwater-gate-") as directory:
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            unpack(archive, directory)
        (Path(directory) / prefix).mkdir(parents=True, exist_ok=True)
        yield Revision(name, commit, Path(directory), prefix)


def _git(directory: Path, *arguments: str) -> str | None:
    """What git says, without the newline; None where it fails, or is not there."""
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *arguments], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def unpack(archive: tarfile.TarFile, directory: str | Path) -> None:
    """Lay out an archive. Members that would land elsewhere are refused, where Python can: from 3.11.4 on."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(directory, filter="data")
    else:
        archive.extractall(directory)
