"""The part of the benchmarks about what is waited for in pages: a step in the explorer, a search from it, a run's page.

The server is a process of its own, as a user has it. What a browser takes is measured where there is one (Debian's
Chromium and Playwright); where there is none the rows are left out, and the page says so.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from docs.bench.figures import spread

HEADING = "## Pages and the explorer"
REPEAT = 5
SCENARIO = "replication/standard-fencing"
NOWHERE = "partition.leader is not none and not (partition.leader.value in partition.isr)"
"""Holds in no state, so that all of them are searched."""
STEPS = 20
PAGES = {
    "a counterexample of 20 steps": ("check", "replication/defect-late-fetch", "--workers", "1"),
    "a difference, a rule on and off": (
        *("diff", "replication/defect-late-fetch", "--rule", "fetch_response_epoch_check=off"),
        *("--action", "take_fetch_answer"),
    ),
    "a loop of a liveness property": ("check", "replication/live-rejected", "--workers", "1"),
}
_STEP = ".possible button.step"
_CLICK = """button => new Promise(done => {
  const before = document.querySelector('.where').textContent, start = performance.now();
  const look = () => document.querySelector('.where').textContent === before
    ? requestAnimationFrame(look) : done(performance.now() - start);
  button.click();
  look();
})"""
_LOADED = "performance.getEntriesByType('navigation')[0].loadEventEnd"


def rows(repeat: int) -> Iterator[str]:
    """The rows of the table, as they come."""
    with tempfile.TemporaryDirectory() as folder, _browser() as browser:
        with _server() as address:
            yield from _answers(address, repeat)
            if browser is not None:
                yield _in_browser(browser, address)
        for title, arguments in PAGES.items():
            page = Path(folder) / "run.html"
            command = [sys.executable, "-m", "highwater", *arguments, "--html", str(page)]
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            if done.returncode not in (0, 1):
                raise RuntimeError(f"highwater {' '.join(arguments)} ended with status {done.returncode}")
            size = f"{page.stat().st_size / 1e6:.2f} MB"
            if browser is None:
                yield f"| page of {title} | {size} | at most 1 MB |"
            else:
                loaded = [_loading(browser, page) for _ in range(repeat)]
                yield f"| page of {title}: loaded and drawn | {spread(loaded, '{:.0f} ms')}; {size} | 1 s, 1 MB |"


@contextmanager
def _server() -> Iterator[str]:
    """``highwater explore`` in a process of its own; its address."""
    command = [sys.executable, "-m", "highwater", "explore", SCENARIO, "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def _asked(address: str, what: str, **arguments: Any) -> tuple[dict[str, Any], float]:
    """An answer of the server, and the ms until it was there."""
    started = time.perf_counter()
    with urlopen(f"{address}{what}?{urlencode(arguments)}") as answer:
        said = answer.read()
    return json.loads(said), (time.perf_counter() - started) * 1000


def _answers(address: str, repeat: int) -> Iterator[str]:
    """Steps of random walks, each asked for with the whole way to it; and the search of all states."""
    taken = []
    for seed in range(repeat):
        way, _ = _asked(address, "random", path="0", steps=STEPS, seed=seed)
        numbers = way["path"].split(".")
        taken += [_asked(address, "run", path=".".join(numbers[:n]))[1] for n in range(2, len(numbers) + 1)]
    yield f"| a step of a way of up to {STEPS}: the server's answer | {spread(taken, '{:.0f} ms')} | 100 ms |"
    first, _ = _asked(address, "nearest", path="0", where=NOWHERE)
    again = [_asked(address, "nearest", path="0", where=NOWHERE) for _ in range(repeat)]
    states = {said["states"] for said, _ in again} | {first["states"]}
    if len(states) != 1 or first["path"] is not None or not first["complete"]:
        raise RuntimeError(f"{NOWHERE}: not searched to the end, or found")
    whole = spread([ms / 1000 for _, ms in again], "{:.2f} s")
    yield f"| the nearest state with a condition that none of {states.pop():,} has | {whole} | 3 s |"


@contextmanager
def _browser() -> Iterator[Any]:
    """Debian's Chromium, driven by Playwright; None where one of them is missing."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        path = None
    if path is None:
        yield None
        return
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


def _in_browser(browser: Any, address: str) -> str:
    """A step by a click, until the page says so and has drawn it."""
    page, chance, taken = browser.new_page(), random.Random(0), []
    page.goto(address)
    for _ in range(STEPS):
        page.locator(_STEP).first.wait_for()
        steps = page.locator(_STEP).element_handles()
        taken.append(chance.choice(steps).evaluate(_CLICK))
    page.close()
    return f"| a step in a browser, from the click until the page shows it | {spread(taken, '{:.0f} ms')} | |"


def _loading(browser: Any, path: Path) -> float:
    """Ms from the request for a page to the end of its load event, by when its script has drawn it."""
    page = browser.new_page()
    page.goto(path.as_uri())
    found = float(page.evaluate(_LOADED))
    page.close()
    return found


def section(rows: list[str], machine: str) -> str:
    """The part of the page."""
    browser, load = any("click" in row for row in rows), os.getloadavg()[0]
    driven = "Chromium without a screen" if browser else "no browser was there: its rows are missing"
    return "\n".join(
        [
            HEADING,
            "",
            f"Measured on {date.today().isoformat()}: {machine}; {driven}.",
            f"The machine's load was {load:.1f} at its end; where that is more than it has cores, everything waits.",
            f"The explorer is that of `{SCENARIO}`, a process of its own. The search was compiled before, as it is",
            "when the same is asked again; pages of runs are files of their own.",
            "",
            "| what is waited for | measured | figure to reach |",
            "| --- | --- | --- |",
            *rows,
            "",
        ]
    )
