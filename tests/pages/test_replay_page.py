"""The page of an incident in a browser: phone, keyboard, light and dark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command import highwater
from tests.generation.incident import write_incident
from tests.pages.conftest import assert_scheme, watched


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("incident")
    write_incident(folder)
    done = highwater("replay", folder, "--html", folder / "page.html")
    assert done.status == 1, done.output
    return folder / "page.html"


@pytest.fixture
def opened(browser: Any, incident: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page in a window of a width, light or dark."""
    width, dark = getattr(request, "param", (1280, True))
    with watched(browser, width=width, dark=dark) as page:
        page.goto(incident.as_uri())
        yield page


@pytest.mark.parametrize(
    ("opened", "dark"), [((390, False), False), ((1280, True), True)], indirect=["opened"]
)
def test_the_headline_is_on_the_first_screen_above_the_lanes(opened: Any, dark: bool) -> None:
    assert opened.evaluate("document.documentElement.scrollWidth") <= opened.viewport_size["width"]
    sentence = opened.get_by_text("orders-0 lost 64 committed records (offsets 120–183)").first
    box = sentence.bounding_box()
    assert 0 < box["y"] < 420
    order = [
        opened.get_by_text(text, exact=True).first.bounding_box()["y"]
        for text in ("Timelines", "Violations", "What was read")
    ]
    assert [box["y"], *order] == sorted([box["y"], *order])
    texts = opened.locator("svg.timeline text").all_text_contents()
    assert {"broker 0", "broker 1", "broker 2", "min ISR", "log of 0", "log of 1", "log of 2"} <= set(texts)
    assert_scheme(opened, dark=dark)


def test_the_arrow_keys_go_from_change_to_change(opened: Any) -> None:
    def change() -> int:
        return int(re.search(r"Change (\d+) of \d+", opened.locator("body").inner_text())[1])  # type: ignore[index]

    start = change()
    opened.locator("svg.timeline[tabindex], [role=slider]").first.focus()
    opened.keyboard.press("ArrowLeft")
    assert change() == start - 1
    opened.keyboard.press("ArrowRight")
    assert change() == start
