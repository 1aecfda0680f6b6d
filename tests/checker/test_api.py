"""``import highwater``: public names, import cost, and the code of its page."""

from __future__ import annotations

import doctest
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import highwater as package
from highwater.checker.base.problems import Status
from highwater.checker.cli import cli
from highwater.checker.scenarios import scenario_files
from highwater.model import language, truncation
from tests.checker.conftest import ROOT
from tests.checker.schema import result_problems
from tests.command import highwater


def test_examples_on_the_page_run_with_the_shown_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = "docs/results.md"
    blocks = re.findall(r"^```pycon\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)
    assert len(blocks) == 4
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks), {"__name__": "__main__"}, page, page, 0)
    said: list[str] = []
    failed, tried = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples, out=said.append)
    assert tried >= len(blocks)
    assert not failed, "".join(said)


def test_importing_it_costs_nothing() -> None:
    program = (
        "import sys; before = set(sys.modules); import highwater\n"
        "print(*sorted(m for m in set(sys.modules) - before if m.split('.')[0] not in sys.stdlib_module_names))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["highwater", "highwater.errors"]


def test_every_public_name_is_there() -> None:
    for name in package.__all__:
        assert getattr(package, name) is not None
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="no attribute 'chekc'"):
        _ = package.chekc
    from highwater import language as words

    assert set(words.__all__) == set(language.__all__)
    assert words.Protocol is language.Protocol


def test_all_errors_have_one_base() -> None:
    assert all(
        issubclass(error, package.HighwaterError)
        for error in (package.InputError, package.LanguageError, package.TraceError)
    )
    with pytest.raises(package.HighwaterError, match="no such file"):
        package.replay("nowhere")
    with pytest.raises(package.HighwaterError, match="unknown rule"):
        package.check("truncation/kip-101", rules={"nonsense": True})
    with pytest.raises(package.InputError, match="interpreter engine does not reduce by symmetry"):
        package.check("truncation/kip-101", engine="interpreter", symmetry=True)


def test_a_result_equals_the_command_s_json() -> None:
    ran = highwater("check", "truncation/kip-279", "--set", "max_records=1", "--workers=1", "--json", "-")
    asked = package.check("truncation/kip-279", parameters={"max_records": 1}, workers=1)
    timed = {"seconds", "preparation_seconds", "peak_memory_bytes"}
    (wanted,) = ran.results
    given = json.loads(json.dumps(asked.to_json()))
    assert {k: v for k, v in given.items() if k not in timed} == {
        k: v for k, v in wanted.items() if k not in timed
    }
    assert result_problems(given) == []
    assert asked.status is Status(ran.status)
    shown = highwater("check", "truncation/kip-279", "--workers=1").out.splitlines()
    printed = str(package.check("truncation/kip-279", workers=1)).splitlines()
    verdict = next(i for i, line in enumerate(printed) if line.startswith("truncation/kip-279: violated: "))
    assert printed[:verdict] == shown[1 : verdict + 1], "the counterexamples"
    assert set(printed[verdict + 1 :]) <= set(shown), "the notes"


def test_a_class_that_comes_with_highwater_has_its_invariants() -> None:
    """A protocol class finds its invariants in ``highwater.invariants``; no check passes vacuously."""
    asked = package.scenario(truncation.PROTOCOL)
    assert asked.properties[:2] == ["weak_isr", "strong_isr"]
    by_name = package.scenario("truncation")
    assert asked.properties == by_name.properties


def test_a_notebook_shows_verdict_and_counterexample() -> None:
    result = package.check("truncation/truncate-to-hwm", workers=1)
    shown = result._repr_html_()
    assert "<td>as expected</td>" in shown
    assert "<summary>weak_isr is violated at depth 9</summary>" in shown
    assert "replica 2 fetches a record from replica 0" in shown
    assert "members of its own ISR hold every record" in shown
    assert shown.count("<details") == shown.count("</details>") == 2


def test_a_setting_changes_the_scenario() -> None:
    settings = {"profile": "kip_279", "symmetry": True, "deadlock": True}
    plain = package.scenario("truncation/kip-101")
    for name, value in settings.items():
        changed = package.scenario("truncation/kip-101", **{name: value})  # type: ignore[arg-type]
        assert getattr(plain, name) != getattr(changed, name) == value


def test_a_setting_that_there_is_not_is_refused() -> None:
    with pytest.raises(TypeError, match="there is no setting paramters"):
        package.check("truncation/kip-101", paramters={"max_records": 1})  # type: ignore[call-arg]


# --- the page of commands -------------------------------------------------------------------------


CLI = (ROOT / "docs" / "cli.md").read_text()


def blocks(text: str, language: str) -> Any:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def plain(line: str) -> Any:
    """The line without the figures that differ between runs: seconds and states per second."""
    line = re.sub(r" +\d+\.\d\d$", " SECONDS", line)
    line = re.sub(r"( \([\d,]+/s\))?, \d+\.\d s$", " RATE, SECONDS", line)
    return " ".join(line.split())


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
