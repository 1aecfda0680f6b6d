"""The README and the pages on the command: every output shown is what the command says, every file is as it is."""

from __future__ import annotations

import re
import shlex
import tomllib

import pytest

from highwater.checker.asking import scenarios
from highwater.checker.cli import cli
from tests.checker.conftest import ROOT

README = (ROOT / "README.md").read_text()
CLI = (ROOT / "docs" / "cli.md").read_text()


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def plain(line):
    """A line without the figures that differ from run to run: seconds and states a second."""
    line = re.sub(r" +\d+\.\d\d$", " SECONDS", line)
    line = re.sub(r"( \([\d,]+ a second\))?, \d+\.\d s$", " RATE, SECONDS", line)
    return " ".join(line.split())


@pytest.mark.parametrize("block", blocks(README, "console"), ids=lambda b: b.split("\n")[0])
def test_outputs(highwater, block):
    command, *shown = block.splitlines()
    arguments = shlex.split(command.removeprefix("$ "))
    arguments = ["check"] if arguments == ["make", "check"] else arguments[1:]
    said = [plain(line) for line in highwater(*arguments).out.splitlines() if line.strip()]
    wanted = [plain(line) for line in shown if line.strip()]
    assert len(wanted) > 1
    start = said.index(wanted[0])
    assert said[start : start + len(wanted)] == wanted


def test_there_is_a_counterexample_and_a_table():
    assert len(blocks(README, "console")) == 5
    assert "The state that violates weak_isr, as far as the property reads it:" in README


def test_the_worked_example_is_the_file():
    (code,) = blocks(README, "python")
    assert code in (ROOT / "docs" / "examples" / "register.py").read_text()
    (scenario,) = blocks(README, "toml")
    assert scenario == (ROOT / "docs" / "examples" / "register-hasty.toml").read_text()


def test_the_worked_example_works_elsewhere(highwater, tmp_path):
    """A user's own directory: the files as the README shows them, with the imports of the example."""
    source = (ROOT / "docs" / "examples" / "register.py").read_text()
    imports = source[: source.index("@invariant")]
    (tmp_path / "register.py").write_text(imports + blocks(README, "python")[0])
    (tmp_path / "mine.toml").write_text(blocks(README, "toml")[0])
    assert highwater("check", tmp_path / "mine.toml").status == 0
    assert (
        highwater("check", tmp_path / "mine.toml", "--rule", "wait_for_all=on", "--set", "writes=3").status
        == 0
    )
    assert highwater("check", tmp_path / "mine.toml", "--set", "writes=3").status == 1


def test_the_scenario_shown_is_the_file():
    (shown,) = blocks(CLI, "toml")
    assert tomllib.loads(shown) == tomllib.loads(
        (ROOT / "model" / "truncation" / "scenarios" / "kip-279.toml").read_text()
    )


def test_every_key_of_a_scenario_is_documented():
    table = CLI[CLI.index("| key | meaning |") :].split("\n\n")[0]
    documented = re.findall(r"^\| `\[?(\w+)\]?` \|", table, re.M)
    assert sorted(documented) == sorted(scenarios.KEYS)


def test_every_option_and_command_is_documented(highwater):
    with cli.make_context("highwater", ["list"], resilient_parsing=True) as context:
        assert [name for name in cli.list_commands(context) if f"`highwater {name}" not in CLI] == []
        for name in ("check", "simulate"):
            options = [o for p in cli.get_command(context, name).params for o in (*p.opts, *p.secondary_opts)]
            assert [o for o in options if o.startswith("--") and o not in CLI] == []
