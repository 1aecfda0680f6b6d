"""Where a result in JSON goes: a file, or standard output, which then holds nothing else."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from highwater.checker.base.durable.aside import aside
from highwater.checker.base.problems import InputError


def refuse_unwritable(option: str, target: str | Path) -> None:
    """InputError where the file that an option names cannot be written."""
    path = Path(target)
    writable = os.access(path if path.exists() else path.parent, os.W_OK)
    if path.is_dir() or not writable:
        raise InputError(f"{option} {target}: {'is a directory' if path.is_dir() else 'cannot be written'}")


def write_text(option: str, target: str | Path, text: str) -> None:
    """Write the file that an option names, as ``written``."""
    with written(option, target) as beside:
        beside.write_text(text, encoding="utf-8")


@contextmanager
def written(option: str, target: str | Path) -> Iterator[Path]:
    """Where to write the file that an option names: it takes its place when it is whole (``durable/aside.py``).

    InputError where it cannot be written after all; the file is then what it was.
    """
    try:
        with aside(Path(target)) as beside:
            yield beside
    except BrokenPipeError:  # who reads it went away
        raise
    except OSError as wrong:
        raise InputError(f"{option} {target}: {wrong.strerror or wrong}") from None


class JsonOutput:
    """The target of ``--json``.

    It is looked at at once: a long search must not end with a file that cannot be written. With ``quiet`` fewer lines
    are said to people.
    """

    def __init__(self, target: str | None, *, quiet: bool = False) -> None:
        self.target, self.quiet = target, quiet
        self.to_stdout = target == "-"
        if target is not None and not self.to_stdout:
            refuse_unwritable("--json", target)

    def write(self, content: Any) -> None:
        """Write the content, where a target was given."""
        if self.target is None:
            return
        text = json.dumps(content, indent=2, ensure_ascii=False)
        if self.to_stdout:
            click.echo(text)
        else:
            write_text("--json", self.target, text + "\n")

    def say(self, line: str) -> None:
        """A line for people: on standard output, unless that is for JSON."""
        if not self.to_stdout:
            click.echo(line, file=sys.stdout)

    def note(self, line: str) -> None:
        """A line for people that ``--quiet`` leaves out."""
        if not self.quiet:
            self.say(line)

    def progress(self, line: str) -> None:
        """How far a question to the solver is, on standard error; ``--quiet`` leaves it out."""
        if not self.quiet:
            print(line, file=sys.stderr, flush=True)
