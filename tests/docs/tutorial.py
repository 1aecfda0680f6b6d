"""Run a tutorial: write its files, apply its changes and run its commands, in order."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.checker.test_api import plain
from tests.command import Run, highwater

ROOT = Path(__file__).parents[2]
REPOSITORY = {
    "GIT_AUTHOR_NAME": "somebody", "GIT_AUTHOR_EMAIL": "somebody@example.org", "GIT_COMMITTER_NAME": "somebody",
    "GIT_COMMITTER_EMAIL": "somebody@example.org", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
}  # fmt: skip
LEFT_OUT = "…"


class Part(NamedTuple):
    """A part of a page: a ``file``, a ``diff``, a ``command`` with its output, or the ``count`` of a file's states."""

    kind: str
    name: str
    text: str


def parts(text: str, alone: str | None = None) -> Iterator[Part]:
    """The parts of a page. The first line of a file is a comment with the file's name.

    ``alone`` is the name of a Python file without such a line; TOML without it is then left out.
    """
    pattern = r"^```(\w*)\n(.*?)^```$|^Explored: ([\d,]+) states\.$"
    for language, block, states in re.findall(pattern, text, re.M | re.S):
        if states:
            yield Part("count", "", states.replace(",", ""))
        elif language in ("python", "toml", "yaml", "java"):
            named = re.match(r"(?:#|//) ([\w./-]+)\n", block)
            name = named[1] if named else alone if language == "python" else None
            assert name or alone, f"a block without its file's name: {block[:60]}"
            if name:
                yield Part("file", name, block)
        elif language == "diff":
            yield Part("diff", "", block)
        elif language == "console":
            for asked in re.split(r"^\$ ", block, flags=re.M)[1:]:
                command, _, said = asked.partition("\n")
                yield Part("command", command, said)


def shell(command: str, directory: Path, text: str = "", **more: str) -> Run:
    """Run a command in a shell, with this environment's ``python`` and ``highwater``."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, **REPOSITORY, "PATH": path, **more}
    given = ["bash", "-e", "-c", command]
    done = subprocess.run(
        given, cwd=directory, env=env, input=text, capture_output=True, text=True, check=False
    )
    return Run(done.returncode, done.stdout, done.stderr)


def squeezed(text: str) -> str:
    """The text without line breaks, times, rates and revisions, which differ between runs."""
    lines = (plain(line) for line in text.splitlines())
    text = " ".join(" ".join(lines).split())
    text = re.sub(r"\b(?:[0-9a-f]{12}|REVISION)\b", "REVISION", text)
    text = re.sub(r"(: (?:different|failed|same)) \(\d+\.\d s\)", r"\1", text)
    return re.sub(r"[\d,]+ records a second", "RATE", text)


def compared(part: Part, said: str) -> None:
    """Check that the output equals the shown text, apart from parts marked as left out."""
    whole, at = squeezed(said), 0
    shown = [squeezed(piece) for piece in re.split(rf"^{LEFT_OUT}$", part.text, flags=re.M)]
    for number, piece in enumerate(shown):
        found = whole.find(piece, at)
        assert found >= 0, f"{part.name}: not said: {piece}\nbut: {whole[at:]}"
        assert number or found == 0, f"{part.name}: something is said before {piece}: {whole[:found]}"
        at = found + len(piece)
    assert not shown[-1] or not whole[at:].strip(), f"{part.name}: something is said behind: {whole[at:]}"


def done(path: Path, directory: Path, *, kafka: bool = False) -> int:
    """Run a whole tutorial in the current directory; returns the number of commands.

    Without ``kafka`` it skips the commands that run a Kafka.
    """
    count = 0
    for part in parts(path.read_text()):
        if "--kafka" in part.name and not kafka:
            continue
        if part.kind == "file":
            (directory / part.name).parent.mkdir(parents=True, exist_ok=True)
            (directory / part.name).write_text(part.text)
        elif part.kind == "diff":
            applied = shell("git apply -", directory, part.text)
            assert applied.status == 0, applied.err
        else:
            count += 1
            program, *arguments = shlex.split(part.name)
            if program == "highwater":
                compared(part, highwater(*arguments).out)
                continue
            # The tests package is only importable from a checkout.
            checkout = {"PYTHONPATH": str(ROOT)} if part.name.startswith("python -m tests.") else {}
            result = shell(part.name, directory, **checkout)
            assert result.status == 0, result.err
            compared(part, result.out)
    return count
