"""Run the command in this process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from click.testing import CliRunner

from highwater.checker.cli import cli


@dataclass(frozen=True)
class Run:
    """The exit status and output of one run of the command."""

    status: int
    out: str
    err: str

    @property
    def output(self) -> str:
        return self.out + self.err

    @property
    def results(self) -> Any:
        return json.loads(self.out)


def highwater(*arguments: object) -> Run:
    """Run the command with these arguments. Raises every exception except SystemExit."""
    result = CliRunner().invoke(cli, [str(a) for a in arguments], prog_name="highwater")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Run(result.exit_code, result.stdout, result.stderr)
