"""Bad requests and bad files give exit status 2 and one line that names the place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.checker.conftest import COUNTER, Command, Write


def line_of(text: str) -> str:
    """The file and line of a text in the counter's protocol, as error messages print it."""
    return f"counter.py:{COUNTER[: COUNTER.index(text)].count(chr(10)) + 1}:"


CLASS_LINE, WRAP_LINE = line_of("class Counter"), line_of("s.next.count = 0")
INITIAL_LINE = line_of("def initial(")

BAD_FILES = {
    "unknown key": ("symetry = true\n", ["counter.toml:3:", "'symetry'", "did you mean 'symmetry'?"]),
    "unknown table": ("[paramters]\ntop = 3\n", [":3:", "'paramters'", "did you mean 'parameters'?"]),
    "wrong type": ("title = 'x'\nstandard = 'yes'\n", [":4:", "standard is true or false, not 'yes'"]),
    "list of numbers": ("properties = [1]\n", [":3:", "properties is a list of names"]),
    "parameter out of range": ("[parameters]\nsize = 9\ntop = 12\n", [":5:", "top is 1 to 9, not 12"]),
    "parameter that is no number": ("[parameters]\ntop = 'x'\n", [":4:", "top is a whole number, not 'x'"]),
    "parameter that is a bool": ("[parameters]\ntop = true\n", [":4:", "top is a whole number, not True"]),
    "unknown parameter": ("[parameters]\ntopp = 1\n", [":4:", "'topp'", "did you mean 'top'?"]),
    "unknown rule": ("[rules]\nwrap = true\n", [":4:", "'wrap'", "did you mean 'wraps'?"]),
    "rule that is no bool": ("[rules]\nwraps = 1\n", [":4:", "wraps is true or false, not 1"]),
    "unknown property": ("properties = ['below_six']\n", [":3:", "did you mean 'below_seven'?"]),
    "property of a rule that is off": ("properties = ['even_is_small']\n", [":3:", "the rule wraps is off"]),
    "unknown key in expect": ("[expect]\nviolate = []\n", [":4:", "did you mean 'violated'?"]),
    "promise of what is not checked": ("[expect]\nviolated = ['deadlock']\n", [":4:", "'deadlock'"]),
    "promise of no number": ("[expect]\ndepth = 1.5\n", [":4:", "depth is a whole number"]),
    "not TOML": ("title = \n", ["counter.toml:3:", "not TOML"]),
    "not TOML at the end": ("[parameters", ["counter.toml:3:", "not TOML"]),
    "twice the same key": ("title = 'a'\ntitle = 'b'\n", ["counter.toml:4:", "not TOML"]),
    "unknown profile": ("", ["counter.toml:2:", "'rund'", "did you mean 'round'?"]),
    "no protocol": ("title = 'protocol'\n", ["counter.toml: the key 'protocol' is missing"]),
    "unknown protocol": ("protocol = 'truncaton'\n", [":1:", "did you mean 'truncation'?"]),
    "the language as a protocol": ("protocol = 'language'\n", [":1:", "unknown protocol 'language'"]),
    "no such file": ("protocol = 'contour.py'\n", [":1:", "protocol: there is no file", "contour.py"]),
    "protocol of no text": ("protocol = 3\n", [":1:", "protocol is a text, not 3"]),
}
BAD_PROTOCOLS = {
    "not Python": (COUNTER.replace("class Counter(Protocol):", "class Counter(Protocol)"), [CLASS_LINE]),
    "an error on import": ("import nothing_of_this_name\n", ["counter.py:1:", "ModuleNotFoundError"]),
    "no protocol": ("x = 1\n", ["counter.py", "defines no Protocol"]),
    "two protocols": (COUNTER + "\nclass Other(Counter):\n    pass\n", ["2 Protocols (Counter, Other)"]),
    "PROTOCOL is none": ("PROTOCOL = 3\n", ["PROTOCOL is not a subclass"]),
    "an end of the program": (COUNTER + "\nraise SystemExit(0)\n", ["counter.py:", "SystemExit: 0"]),
    "an end of the program in a property": (
        COUNTER.replace("    return s.count < 7", "    exit(0)"),
        ["counter.py:9:", "SystemExit: 0"],
    ),
    "an exception of no kind": (
        COUNTER.replace("    return s.count < 7", "    raise GeneratorExit"),
        ["counter.py:9:", "GeneratorExit"],
    ),
    "a NUL": (COUNTER + "\0", ["counter.py:1:", "null byte"]),
    "signs that are nested too deeply": ("x = " + "-" * 30_000 + "1", ["counter.py:1:"]),
    "a number of many digits": ("x = " + "9" * 5000, ["counter.py:1:", "digits"]),
    "a rule of a property that is not there": (
        COUNTER.replace('@invariant("C2", rule="wraps")', '@invariant("C2", rule="wrap")'),
        [line_of('@invariant("C2"'), "no rule 'wrap'", "did you mean 'wraps'?"],
    ),
    "parameters that are changed later": (
        COUNTER + "\nCounter.parameters = 5\n",
        ["gives names to a Parameter"],
    ),
    "modules that are changed later": (
        COUNTER + "\nCounter.modules = None\n",
        ["modules of Counter cannot be"],
    ),
    "a symbolic if": (
        COUNTER.replace("        s.next.count = 0", "        s.next.count = 1 if s.count else 0"),
        [WRAP_LINE, "truth value"],
    ),
    "a mistake in Python": (
        COUNTER.replace("        s.next.count = 0", "        s.next.count = self.nothing"),
        [WRAP_LINE, "AttributeError"],
    ),
    "a wrong initial state": (COUNTER.replace('"count": 0', '"count": 10'), ["10", "Int(0..9)"]),
    "no initial state": (COUNTER.replace('[{"count": 0}]', "[]"), ["has no initial state"]),
    "a written field that is read": (
        COUNTER.replace("        s.next.count = 0", '        require("x", s.next.count == 0)'),
        [WRAP_LINE, "s.next is only written"],
    ),
    "a field that is added to in place": (
        COUNTER.replace("        s.next.count = 0", "        s.next.count += 1"),
        [WRAP_LINE, "+= reads what it writes", "s.next.… = s.… + …"],
    ),
    "a quotient": (
        COUNTER.replace("        s.next.count = 0", "        s.next.count = s.count / 2"),
        [WRAP_LINE, "/ has no meaning"],
    ),
    "a precedence": (
        COUNTER.replace("        s.next.count = 0", '        require("x", s.count == 1 & s.count == 2)'),
        [WRAP_LINE, "put each comparison in parentheses"],
    ),
    "a field that is not there": (
        COUNTER.replace("        s.next.count = 0", "        s.next.cuont = 0"),
        [WRAP_LINE, "did you mean 'count'?"],
    ),
    "a parameter that is not there": (
        COUNTER.replace("        s.next.count = 0", "        s.next.count = self.p.tpo"),
        [WRAP_LINE, "there is no parameter 'tpo'; there are size, top"],
    ),
    "a rule that is not there": (
        COUNTER.replace("        s.next.count = 0", '        s.next.count = 1 if self.on("wrap") else 0'),
        [WRAP_LINE, "no rule 'wrap'", "did you mean 'wraps'?"],
    ),
    "an initial field too many": (
        COUNTER.replace('{"count": 0}', '{"count": 0, "more": 1}'),
        [INITIAL_LINE, "State has no field 'more'"],
    ),
    "an initial state alone": (
        COUNTER.replace('[{"count": 0}]', '{"count": 0}'),
        [INITIAL_LINE, "a list of states, not one state"],
    ),
    "initial states that are not returned": (
        COUNTER.replace('return [{"count": 0}]', '[{"count": 0}]'),
        [INITIAL_LINE, "a list of states, not None"],
    ),
    "no define": (COUNTER.replace("def define(", "def state_type("), [CLASS_LINE, "Counter has no define()"]),
    "a define that returns nothing": (
        COUNTER.replace('return Struct("State"', 'Struct("State"'),
        [line_of("def define("), "define() returned None"],
    ),
    "a property that returns nothing": (
        COUNTER.replace("return s.count < 7", "s.count < 7"),
        [line_of('@invariant("C1")'), "invariant below_seven returned None"],
    ),
    "a property that returns a number": (
        COUNTER.replace("return s.count < 7", "return s.count"),
        [line_of('@invariant("C1")'), "it returns a condition"],
    ),
    "an action that returns a value": (
        COUNTER.replace("        s.next.count = 0", "        return s.count == 0"),
        [line_of('@action("C7"'), "action wrap returned a value"],
    ),
    "a domain that is not there": (
        COUNTER.replace("    def wrap(self, s)", "    def wrap(self, s, to)").replace(
            'says="start again"', 'says="start {to} again", to="replica"'
        ),
        [line_of('@action("C7"'), "ranges over 'replica', which define() does not set"],
    ),
    "a parameter called s": (
        COUNTER.replace('says="start again"', 's="replica"'),
        [line_of('@action("C7"'), "cannot be called 's'"],
    ),
    "a sentence of no parameter": (
        COUNTER.replace('says="start again"', 'says="start {again}"'),
        [line_of('@action("C7"'), "names {again}"],
    ),
    "a field that every state has": (
        COUNTER.replace("count=Int(0, self.p.size)", "count=Int(0, self.p.size), next=Int(0, 1)"),
        [line_of('return Struct("State"'), "cannot have a field 'next'"],
    ),
    "a field that every value has": (
        COUNTER.replace("count=Int(0, self.p.size)", "count=Int(0, self.p.size), type=Int(0, 1)"),
        [line_of('return Struct("State"'), "cannot have a field 'type'"],
    ),
    "invariants that are no tuple": (
        COUNTER.replace("invariants = (below_seven, even_is_small)", "invariants = below_seven"),
        [CLASS_LINE, "is a tuple of what @invariant marks"],
    ),
    "parameters of no kind": (
        COUNTER.replace('Parameter(5, 1, 9, "the last count")', "5"),
        [CLASS_LINE, "gives names to a Parameter each"],
    ),
    "two writers": (
        COUNTER.replace("        s.next.count = 0", "        s.next.count = 0; s.next.count = 1"),
        [WRAP_LINE, "second time"],
    ),
}
BAD_REQUESTS = {
    "unknown command": (["chek"], ["'chek'", "did you mean 'check'?"]),
    "unknown option": (["check", "--fisrt"], ["--fisrt"]),
    "unknown scenario": (
        ["check", "truncation/kip-321"],
        ["'truncation/kip-321'", "did you mean 'truncation/kip-"],
    ),
    "a scenario's path without its name": (["check", "kip-320"], ["did you mean 'truncation/kip-320'?"]),
    "nothing like a scenario": (["check", "xyzzy"], ["'xyzzy'; `highwater list` names them"]),
    "a file without .toml": (["check", "Makefile"], ["Makefile: not a scenario", ".toml"]),
    "a directory without .toml": (["coverage", "docs"], ["docs: not a scenario", ".toml"]),
    "mutants of no scenario": (["mutate", "truncation/kip-321"], ["did you mean 'truncation/kip-"]),
    "mutants of no place": (
        ["mutate", "truncation/kip-320", "--only", "isr.py:1", "--quiet", "--workers", "1"],
        ["--only isr.py:1: no mutant of these scenarios matches"],
    ),
    "mutants kept in a directory": (["mutate", "--keep", "docs"], ["--keep docs: is a directory"]),
    "mutants kept in a device": (
        ["mutate", "--keep", "/dev/null"],
        ["/dev/null: not what highwater mutate keeps: not a file"],
    ),
    "a path that goes up": (["check", "../model/truncation/kip-320"], ["unknown scenario"]),
    "no such file": (["check", "nowhere.toml"], ["nowhere.toml: No such file"]),
    "a directory": (["check", "docs/x.toml/../"], ["unknown scenario"]),
    "unknown engine": (["check", "--engine", "warp"], ["--engine", "'warp'"]),
    "--set without a value": (
        ["check", "truncation/kip-320", "--set", "replicas"],
        ["--set replicas: write NAME=VALUE"],
    ),
    "--set of no number": (
        ["check", "truncation/kip-320", "--set", "replicas=three"],
        ["--set replicas=three", "whole number"],
    ),
    "--set out of range": (
        ["check", "truncation/kip-320", "--set", "replicas=9"],
        ["--set replicas=9", "1 to 5"],
    ),
    "--set of nothing known": (
        ["check", "truncation/kip-320", "--set", "replica=2"],
        ["did you mean 'replicas'?"],
    ),
    "--rule without a value": (
        ["check", "truncation/kip-320", "--rule", "fenced_fetch"],
        ["NAME=on or NAME=off"],
    ),
    "--rule with another value": (
        ["check", "truncation/kip-320", "--rule", "fenced_fetch=1"],
        ["NAME=on or NAME=off"],
    ),
    "--rule of nothing known": (
        ["check", "truncation/kip-320", "--rule", "fenced_fech=on"],
        ["did you mean 'fenced_fetch'?"],
    ),
    "--profile of nothing known": (
        ["check", "truncation/kip-320", "--profile", "kip-320"],
        ["did you mean 'kip_320'?"],
    ),
    "--property of nothing known": (
        ["check", "truncation/kip-320", "--property", "stron_isr"],
        ["did you mean 'strong_isr'?"],
    ),
    "--json into no directory": (["check", "--json", "no/such/place.json"], ["--json no/such/place.json"]),
    "--json into a directory": (["check", "--json", "docs"], ["--json docs: is a directory"]),
    "--limit-states 0": (["check", "--limit-states", "0"], ["--limit-states"]),
    "--spill to no directory": (["check", "--spill", "no/such"], ["--spill", "no/such"]),
    "--memory without end": (["check", "--memory", "inf"], ["--memory", "finite number"]),
    "--memory beyond every machine": (
        ["check", "truncation/kip-320", "--fresh", "--memory", "1e308"],
        ["no address space"],
    ),
    "--memory of no number": (["prove", "truncation/kip-320", "--memory", "nan"], ["--memory", "nan"]),
    "--limit-seconds of no number": (["check", "--limit-seconds", "nan"], ["--limit-seconds", "nan"]),
    "--budget of no number": (["gate", "--budget", "nan"], ["--budget", "nan"]),
    "more --workers than there can be": (["check", "--workers", "100000000"], ["--workers", "1024"]),
    "a --depth that no memory holds": (
        ["simulate", "truncation/kip-320", "--depth", "99999999999"],
        ["--depth", "99999999999"],
    ),
    "--baseline that is no file": (
        ["gate", "--update", "truncation/kip-320", "--baseline", "/dev/full"],
        ["--baseline /dev/full: is no file"],
    ),
    "replay with a rule that has no name": (["replay", "docs", "--rule", "=on"], ["NAME=on or NAME=off"]),
    "simulate nothing": (["simulate"], ["SCENARIO"]),
    "--walks of no number": (["simulate", "truncation/kip-320", "--walks", "many"], ["--walks", "many"]),
    "show nothing known": (["show", "strong_is"], ["did you mean 'strong_isr'?"]),
    "list of nothing known": (["list", "--kind", "cats"], ["--kind", "cats"]),
}


def refused(run: Any, parts: Any) -> None:
    assert run.status == 2, run
    assert run.out == ""
    assert run.err.startswith("highwater: ")
    assert run.err.count("\n") == 1, run.err
    assert "Traceback" not in run.err
    for part in parts:
        assert part in run.err


@pytest.mark.parametrize(("text", "parts"), BAD_FILES.values(), ids=BAD_FILES)
def test_scenario_files(highwater: Command, counter: Write, text: str, parts: Any) -> None:
    path = counter(text)
    if "'rund'" in parts:
        path.write_text("protocol = 'counter.py'\nprofile = 'rund'\n")
    if "missing" in parts[0]:
        path.write_text("title = 'nothing'\n")
    run = highwater("check", path)
    refused(run, [str(path.parent), *parts])


@pytest.mark.parametrize(("text", "parts"), BAD_PROTOCOLS.values(), ids=BAD_PROTOCOLS)
def test_protocol_files(highwater: Command, counter: Write, text: str, parts: Any) -> None:
    run = highwater("check", counter("", protocol=text), "--profile", "round")
    refused(run, parts)


def test_a_protocol_file_is_named_as_it_was_given(
    highwater: Command, counter: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the file as the command line does, from its own folder too."""
    path = counter("", protocol=COUNTER.replace("    return s.count < 7", "    return s.count < self"))
    monkeypatch.chdir(path.parent)
    refused(highwater("check", path.name), ["highwater: counter.py:9: NameError"])


def test_a_long_error_is_shortened(highwater: Command, counter: Write) -> None:
    run = highwater("check", counter(f"title = [{'1, ' * 9_000}]\n"))
    refused(run, ["counter.toml:3: title is a text, not [1, 1"])
    assert len(run.err) < 4100


@pytest.mark.parametrize(("arguments", "parts"), BAD_REQUESTS.values(), ids=BAD_REQUESTS)
def test_requests(highwater: Command, arguments: Any, parts: Any) -> None:
    refused(highwater(*arguments), parts)


@pytest.mark.parametrize(
    "request_",
    [
        ["coverage", "truncation/kip-320", "--limit-states", "10", "--html"],
        ["gate", "--update", "truncation/truncate-to-hwm", "--baseline", "{}/gate.toml", "--json"],
        ["check", "truncation/truncate-to-hwm", "--trace-out"],
        ["list", "--json"],
    ],
    ids=lambda request_: f"{request_[0]} {request_[-1]}",
)
def test_a_file_that_turns_out_not_to_be_writable(highwater: Command, tmp_path: Path, request_: Any) -> None:
    run = highwater(*(part.format(tmp_path) for part in request_), "/dev/full")
    assert run.status == 2
    assert run.err.endswith(f"highwater: {request_[-1]} /dev/full: No space left on device\n")


def test_a_baseline_below_a_file(highwater: Command, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    run = highwater(
        "gate", "--update", "truncation/truncate-to-hwm", "--baseline", tmp_path / "file" / "gate.toml"
    )
    assert run.status == 2
    assert run.err.endswith(f"{tmp_path / 'file'}: File exists\n")


def test_bytes_that_are_no_text(highwater: Command, tmp_path: Path) -> None:
    path = tmp_path / "bytes.toml"
    path.write_bytes(b"title = '\xff\xfe'\n")
    refused(highwater("check", path), [f"{path}: not a text in UTF-8"])


def test_a_bad_scenario_among_good_ones_stops_all(highwater: Command, counter: Write) -> None:
    refused(highwater("check", "truncation/kip-320", counter("x = 1\n")), ["counter.toml:3:"])


def test_a_type_that_is_left_after_other_scenarios_keeps_their_results(
    highwater: Command, counter: Write
) -> None:
    good = counter(name="good.toml")
    bad = counter("[parameters]\ntop = 9\nsize = 3\n", name="bad.toml")
    run = highwater("check", good, bad, "--json", "-")
    assert run.status == 2
    assert [r["scenario"] for r in run.results] == [str(good)]
    assert "count leaves 0..3" in run.err
