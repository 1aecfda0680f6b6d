"""Readers: each kind of file is read as a user would read it, and its outcome is checked."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from urllib.parse import quote

from werkzeug.test import Client

from highwater.checker.base.problems import InputError
from highwater.checker.comparing.gate import baseline
from highwater.checker.comparing.gate.entries import Ran
from highwater.checker.explore.server import Application
from highwater.checker.explore.session import Answers, path_of, read_trace
from highwater.checker.scenarios.request import Overrides, asked
from highwater.errors import HighwaterError
from tests.command import highwater
from tests.fuzzing import changes

TOKEN = "token"


def command(*arguments: object) -> None:
    """Run the command; an error must be one line. Raises every exception that the command does not catch."""
    done = highwater(*arguments)
    assert done.status in (0, 1, 2, 3), f"status {done.status}"
    if done.status == 2 and not done.out:
        assert done.err.startswith("highwater: "), done.err[:500]
        assert done.err.count("\n") == 1, done.err[:500]
    for said in (done.out, done.err):
        assert "Traceback" not in said, said[:500]


def _replay(path: Path) -> None:
    command("replay", path, "--json", path.parent / "report.json", "--quiet")


def _beside(path: Path) -> None:
    """Replay a metadata log together with all files of its folder."""
    command("replay", path.parent, "--html", path.parent / "page.html")


def _scenario(path: Path) -> None:
    command("show", path, "--json", "-")


def _baseline(path: Path) -> None:
    try:
        found = baseline.read(path)
        found.text()
        found.select.unmatched(found.root)
        known = {e.key: e for e in [*found.select.entries(found.root), *found.entries()]}
        for key, facts in found.facts.items():
            if key in known:
                after = {
                    **facts,
                    "depth": 7,
                    "graph": "other",
                    "actions": {},
                    "premises": {"x": 0},
                    "violated": {},
                }
                for change in baseline.compare(known[key], facts, Ran(after)).differences:
                    str(change)
    except HighwaterError as wrong:
        one_line(wrong)


def _explored(path: Path) -> None:
    try:
        request, lines = read_trace(path)
        if request.scenario.name == "truncation":
            path_of(views().session, lines)
    except HighwaterError as wrong:
        one_line(wrong)


def _checkpoint(path: Path) -> None:
    command(*checkpointed(path.parents[1] / "scenario" / "counter.toml", path.parent), "--resume")


def checkpointed(scenario: Path, folder: Path) -> list[object]:
    """The search that wrote the sample checkpoint."""
    return [
        "check", scenario, "--set", "top=3", "--checkpoint", folder, "--quiet", "--workers", "1", "--memory", "0.1",
    ]  # fmt: skip


def one_line(wrong: HighwaterError) -> None:
    assert "\n" not in str(wrong), str(wrong)[:500]


READERS: dict[str, Callable[[Path], None]] = {
    "scenario": _scenario,
    "baseline": _baseline,
    "run": _replay,
    "compressed run": _replay,
    "explored run": _explored,
    "metadata segment": _replay,
    "compressed segment": _replay,
    "snapshot": _replay,
    "dump": _replay,
    "log of broker 0": _beside,
    "log of broker 1": _beside,
    "data dump": _beside,
    "checkpoint": _checkpoint,
}
"""Kind of file → its reader."""


# --- requests ---------------------------------------------------------------------------------------------


@cache
def views() -> Answers:
    return Answers(asked("truncation/truncate-to-hwm"))


@cache
def _client() -> Client:
    return Client(Application(views(), "<p>page</p>", TOKEN))


_SAID = (
    "quorum.leader is none", "not (1 == 1)", "replicas[0].hwm == 1", "len(logs[0]) > 0", "logs[0][0].id", "0", "0.1.2",
    "all(r in replicas: r.hwm == 0)", "replicas[0].isr", "1.99999999", "0." * 400 + "0", "strong_isr", "fenced_fetch",
)  # fmt: skip


def request(rng: random.Random) -> str:
    """A random address of a request to the explorer."""
    names = ("run", "nearest", "random", "rule", "", "..", "run/x")
    said = [rng.choice(_SAID).encode() for _ in range(3)]
    if rng.random() < 0.7:
        said = [changes.changed(rng, text)[:20_000] for text in said]
    if rng.random() < 0.2:
        said[0] = rng.choice(changes.VALUES)[:20_000]
    keys = ("path", "watch", "where", "name", "steps", "seed", "path")
    query = "&".join(f"{rng.choice(keys)}={quote(text)}" for text in said)
    name = rng.choice(names)
    if name == "nearest":  # only the request is tested: not every condition starts a search
        query += "&path=" + rng.choice(("x", "9", "0.77777"))
    token = TOKEN if rng.random() < 0.95 else quote(rng.choice(changes.VALUES)[:50])
    return f"/{token}/{name}?{query}"


def ask(address: str) -> None:
    """Send a request to the explorer. Raises every exception that it does not catch."""
    answer = _client().get(address, base_url="http://127.0.0.1:1/")
    assert answer.status_code in (200, 308, 400, 404, 405, 414), answer.status
    if answer.status_code == 400:
        assert "\n" not in json.loads(answer.text)["error"]


def options(rng: random.Random) -> Sequence[str]:
    texts = [b"top=5", b"wraps=on", b"plain", b"below_seven", b"size=9", b"skips=off"]
    said = [
        changes.changed(rng, rng.choice(texts))[:100_000].decode(errors="surrogateescape") for _ in range(4)
    ]
    names = [rng.choice(("--set", "--rule", "--profile", "--property")) for _ in said]
    return [part for pair in zip(names, said, strict=True) for part in pair]


def set_over(scenario: Path, given: Sequence[str]) -> None:
    """Load a scenario with these options."""
    named = dict.fromkeys(("--set", "--rule", "--profile", "--property"), ())
    pairs = list(zip(given[::2], given[1::2], strict=True))
    sets, rules, profiles, properties = ([value for key, value in pairs if key == name] for name in named)
    try:
        set_ = Overrides.parse(sets, rules, profiles[0] if profiles else None, properties)
        asked(
            scenario,
            parameters=set_.parameters,
            rules=set_.rules,
            profile=set_.profile,
            properties=set_.properties,
        )
    except (HighwaterError, InputError) as wrong:
        one_line(wrong)
