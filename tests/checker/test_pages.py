"""README and command pages: every output shown is what the command prints, every file shown is current."""

from __future__ import annotations

import re
import shlex
import tomllib
from typing import Any

import pytest

from highwater.checker.cli import cli
from highwater.checker.scenarios import scenario_files
from tests.checker.conftest import ROOT
from tests.command import highwater

README = (ROOT / "README.md").read_text()
CLI = (ROOT / "docs" / "cli.md").read_text()


def blocks(text: str, language: str) -> Any:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def plain(line: str) -> Any:
    """The line without the figures that differ between runs: seconds and states per second."""
    line = re.sub(r" +\d+\.\d\d$", " SECONDS", line)
    line = re.sub(r"( \([\d,]+/s\))?, \d+\.\d s$", " RATE, SECONDS", line)
    return " ".join(line.split())


@pytest.mark.parametrize("block", blocks(README, "console"), ids=lambda b: b.split("\n")[0])
def test_outputs(block: Any) -> None:
    command, *shown = block.splitlines()
    arguments = shlex.split(command.removeprefix("$ "))
    arguments = ["check"] if arguments == ["make", "check"] else arguments[1:]
    said = [plain(line) for line in highwater(*arguments).out.splitlines() if line.strip()]
    wanted = [plain(line) for line in shown if line.strip()]
    assert len(wanted) > 1
    start = said.index(wanted[0])
    assert said[start : start + len(wanted)] == wanted


def test_the_scenario_shown_is_the_file() -> None:
    (shown,) = blocks(CLI, "toml")
    assert tomllib.loads(shown) == tomllib.loads(
        (ROOT / "model" / "truncation" / "scenarios" / "kip-279.toml").read_text()
    )


def test_every_key_of_a_scenario_is_documented() -> None:
    table = CLI[CLI.index("| key | meaning |") :].split("\n\n")[0]
    documented = re.findall(r"^\| `\[?(\w+)\]?` \|", table, re.M)
    assert sorted(documented) == sorted(scenario_files.ScenarioTable.__struct_fields__)


def test_every_option_and_command_is_documented() -> None:
    with cli.make_context("highwater", ["list"], resilient_parsing=True) as context:
        for name in ("check", "simulate"):
            command = cli.get_command(context, name)
            assert command is not None
            options = [o for p in command.params for o in (*p.opts, *p.secondary_opts)]
            assert [o for o in options if o.startswith("--") and o not in CLI] == []
