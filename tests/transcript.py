"""Pinned texts: the output of commands, and other texts, in ``transcript.txt`` beside the tests.

The fixture ``pinned`` (tests/conftest.py) compares a text with the section of its name. ``pytest --renew`` replaces the
section instead; read the difference before you commit it. A section has a first line ``=== NAME``.

A section can state the commands itself: ``played`` runs them, and returns the section with their present output. It has

- ``-- NAME --``: a file with the lines that follow
- ``$ ARGUMENTS``: a command. The lines that follow are its output, those of standard error after ``! ``, and the exit
  status if it is not 0. ``NAME=VALUE`` before the arguments sets an environment variable. After ``|`` stand keys: only
  these are printed of each JSON result.
- ``# …``: a comment
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import chdir
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest

from highwater.checker.base.problems import environment
from tests.command import highwater

ROOT = Path(__file__).parents[1]
_HEAD = "=== "
_PART = re.compile(r"^((?:-- .* --|\$ .*|# .*)\n)((?:(?!-- .* --$|\$ |# ).*\n)*)", re.MULTILINE)
_VARYING = (
    (r"^.*(/s, depth \d+, |: tracing and compiling).*\n?", ""),
    (r" +\d+\.\d+(?=$|  )", " SECONDS"),
    (r"( \([\d,]+/s\))?, \d+\.\d s$", ", SECONDS"),
    (r"\(\d+\.\d+ s\)|(?<=\"seconds\": )\d+\.\d+", "SECONDS"),
)
"""What differs between runs: progress, times and rates."""


def sections(test: Path) -> dict[str, str]:
    """The sections of the transcript beside a test: name → text."""
    path = test.with_name("transcript.txt")
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return dict(part.split("\n", 1) for part in f"\n{text}".split(f"\n{_HEAD}")[1:])


class Transcript:
    """The transcript beside a test. ``renews``: replace its sections instead of comparing with them."""

    def __init__(self, test: Path, *, renews: bool) -> None:
        self._path, self._renews = test.with_name("transcript.txt"), renews
        self.sections = sections(test)

    def __call__(self, name: str, text: str) -> None:
        """Compare a text with the section of this name, or replace the section."""
        if self._renews:
            self.sections[name] = f"{text.rstrip()}\n"
            parts = (f"{_HEAD}{name}\n{one}" for name, one in sorted(self.sections.items()))
            self._path.write_text("\n".join(parts), encoding="utf-8")
        before, now = (t.rstrip().splitlines() for t in (self.sections.get(name, ""), text))
        if changes := "\n".join(unified_diff(before, now, "pinned", "now", lineterm="")):
            pytest.fail(f"{self._path.name}, {name}:\n{changes}\nIf that is intended, renew it with --renew")


def played(section: str, folder: Path, see: Callable[[Any], None] = lambda results: None) -> str:
    """A section whose commands are executed in an empty folder, with their present output.

    ``see`` is called with the JSON results of each command that has keys.
    """
    (folder / "docs").symlink_to(ROOT / "docs")
    with chdir(folder):
        return "".join(_parts(section, see))


def _parts(section: str, see: Callable[[Any], None]) -> Iterator[str]:
    for head, body in _PART.findall(section):
        if head.startswith("-- "):
            Path(head[3:-4]).write_text(body, encoding="utf-8")
        yield head + ("\n".join([*_output(head[2:], see), "", ""]) if head.startswith("$ ") else body)


def _output(line: str, see: Callable[[Any], None]) -> Iterator[str]:
    command, _, keys = line.partition(" | ")
    words = shlex.split(command)
    variables = [word.split("=", 1) for word in words if re.match(r"[A-Z]+=", word)]
    with environment(*variables[0]) if variables else chdir("."):
        run = highwater(*words[len(variables) :], *(["--json", "-"] if keys else []))
    out, err = run.out, run.err
    if keys:
        see(run.results)
        out = "".join(f"{k}: {json.dumps(one[k])}\n" for one in run.results for k in shlex.split(keys))
    for place in (f"{Path.cwd()}/", f"{ROOT}/"):
        out, err = out.replace(place, ""), err.replace(place, "")
    for pattern, name in _VARYING:
        out, err = (re.sub(pattern, name, text, flags=re.MULTILINE) for text in (out, err))
    yield from (part.rstrip() for part in out.strip("\n").splitlines())
    yield from (f"! {part}" for part in err.splitlines())
    if run.status:
        yield f"status {run.status}"
