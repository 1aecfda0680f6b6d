"""The page of an incident in a browser: phone, keyboard, light and dark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from highwater.checker.cli import cli
from tests.generation.incident import write_incident


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("incident")
    write_incident(folder)
    done = CliRunner().invoke(cli, ["replay", str(folder), "--html", str(folder / "page.html")])
    assert done.exit_code == 1, done.output
    return folder / "page.html"


@pytest.fixture(
    params=[(390, "light"), (390, "dark"), (1280, "dark")], ids=["phone", "phone-dark", "desk-dark"]
)
def page(browser: Any, incident: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page in a window. Console messages, errors and policy violations fail the test."""
    width, scheme = request.param
    complaints: list[str] = []
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    found = context.new_page()
    found.set_default_timeout(60_000)
    found.on("console", lambda message: complaints.append(message.text))
    found.on("pageerror", lambda error: complaints.append(str(error)))
    found.on("request", lambda r: complaints.extend([] if r.url.startswith("file:") else [r.url]))
    found.goto(incident.as_uri())
    yield found
    context.close()
    assert complaints == []


def test_the_headline_is_on_the_first_screen(page: Any) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    sentence = page.get_by_text("orders-0 lost 64 committed records (offsets 120–183)").first
    box = sentence.bounding_box()
    assert 0 < box["y"] < 420
    order = [
        page.get_by_text(text, exact=True).first.bounding_box()["y"]
        for text in ("Timelines", "Violations", "What was read")
    ]
    assert [box["y"], *order] == sorted([box["y"], *order])


def test_lanes_of_brokers_settings_and_logs(page: Any) -> None:
    texts = page.locator("svg.timeline text").all_text_contents()
    assert {"broker 0", "broker 1", "broker 2", "min ISR", "log of 0", "log of 1", "log of 2"} <= set(texts)


def test_the_arrow_keys_go_from_change_to_change(page: Any) -> None:
    def change() -> int:
        return int(re.search(r"Change (\d+) of \d+", page.locator("body").inner_text())[1])  # type: ignore[index]

    start = change()
    page.locator("svg.timeline[tabindex], [role=slider]").first.focus()
    page.keyboard.press("ArrowLeft")
    assert change() == start - 1
    page.keyboard.press("ArrowRight")
    assert change() == start


def test_it_follows_the_choice_of_light_or_dark(page: Any) -> None:
    ground, ink = page.evaluate("(s => [s.backgroundColor, s.color])(getComputedStyle(document.body))")
    bright = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ground, ink)]
    dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    assert (bright[0] < 150 and bright[1] > 600) if dark else (bright[0] > 600 and bright[1] < 150)
