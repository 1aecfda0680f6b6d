"""The explorer in a browser: steps, branches, addresses, nearest state, watching, other rules, phones."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from highwater.checker.explore.server import explorer_page, serve
from highwater.checker.explore.session import Answers, Path
from highwater.checker.scenarios.request import asked
from tests.pages.conftest import assert_scheme, watched

STEP = ".possible button.step"


@pytest.fixture(scope="module")
def views() -> Answers:
    return Answers(asked("truncation/kip-101", parameters={"max_records": 1}))


@pytest.fixture(scope="module")
def address(views: Answers) -> Iterator[str]:
    server, address = serve(views, explorer_page(views))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield address
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """The page at its start."""
    with watched(browser, server=address) as found:
        found.goto(address)
        found.locator(STEP).first.wait_for()
        yield found


def at(page: Any, path: str) -> None:
    """Wait until the page shows the end of a path."""
    page.wait_for_url(re.compile(rf"#{re.escape(path)}$"))
    page.locator(".where strong").filter(has_text=f"{len(path.split('.'))} of ").wait_for()


def test_by_hand(page: Any, views: Answers) -> None:
    session = views.session
    first = session.possible(session.model.initial[0])
    page.locator(STEP).nth(1).click()
    at(page, f"0.{first[1]}")
    second = session.possible(session.states(Path(0, (first[1],)))[-1])
    page.keyboard.press("1")
    at(page, f"0.{first[1]}.{second[0]}")
    assert "Refused: " in page.locator(".refused summary").inner_text()
    page.locator(".refused summary").click()
    refused = {
        name
        for instance in session.model.instances
        for name in session.interpreter.refusals(
            session.states(Path(0, (first[1], second[0])))[-1], instance
        )[:1]
    }
    told = page.locator(".refused tbody").inner_text()
    assert refused
    assert all(f"“{name}”" in told for name in refused)
    # A branch: Home returns to the start, and another step is taken there. The earlier step is listed first.
    page.keyboard.press("Home")
    page.locator(STEP).nth(1).click()
    at(page, f"0.{first[0]}")
    page.go_back()
    page.locator(".where strong").filter(has_text="of 3").wait_for()


def test_an_address_restores_the_way_and_the_place(page: Any, views: Answers, address: str) -> None:
    path = next(p for n in range(99) if len((p := views.session.walk(Path(), 6, n)).steps) == 6)
    page.goto(f"{address}#{path}@4")
    page.locator(".where strong").filter(has_text="5 of 7").wait_for()
    sentence = views.session.model.instances[path.steps[3]].sentence
    assert sentence in page.locator(".panel h2").first.inner_text()
    page.goto(f"{address}#0.99999")
    page.locator(".status").filter(has_text="there is no step").wait_for()


def test_nearest_watch_rule_and_a_phone(page: Any, views: Answers) -> None:
    assert (
        page.get_by_label("Watch", exact=True).first.get_attribute("placeholder") == "size(replicas[0].isr)"
    )
    page.get_by_label("Watch", exact=True).first.fill("next_record_id")
    page.keyboard.press("Enter")
    page.locator(".watched td").filter(has_text="0").first.wait_for()
    page.keyboard.press("/")
    page.get_by_label("Nearest state where").first.fill(
        "logs[0].length == 1 and replicas[1].leader_epoch.is_(1)"
    )
    page.keyboard.press("Enter")
    page.locator(".status").filter(has_text="Found after").wait_for()
    found = views.session.nearest(Path(), "logs[0].length == 1 and replicas[1].leader_epoch.is_(1)")[0]
    assert found is not None
    page.locator(".where strong").filter(has_text=f"of {len(found.steps) + 1}").wait_for()
    page.locator(".watched td").filter(has_text="1").first.wait_for()
    page.get_by_label("Nearest state where").first.fill("open('x')")
    page.keyboard.press("Enter")
    page.locator(".status.bad-text").filter(has_text="is called").wait_for()
    page.get_by_label("Switch a rule").select_option("fenced_fetch")
    page.locator(".why h2").filter(has_text="fenced_fetch").wait_for()
    page.emulate_media(color_scheme="dark")
    assert_scheme(page, dark=True)
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_keyboard_alone_is_enough(page: Any, views: Answers) -> None:
    """Keys take a step, go back and forward, and focus the search; Tab reaches every control."""
    first = views.session.possible(views.session.model.initial[0])[0]
    page.keyboard.press("1")
    at(page, f"0.{first}")
    page.keyboard.press("ArrowLeft")
    page.locator(".where strong").filter(has_text="1 of 2").wait_for()
    page.keyboard.press("ArrowRight")
    page.locator(".where strong").filter(has_text="2 of 2").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("next_record_id == 1")
    page.keyboard.press("Enter")
    page.locator(".status").filter(has_text="Found after").wait_for()
    # Tab reaches every visible control, and the focus is visible.
    names = set()
    page.locator("body").evaluate("body => { document.activeElement.blur(); body.focus(); }")
    for _ in range(60):
        page.keyboard.press("Tab")
        names.add(
            page.evaluate(
                "document.activeElement.tagName + ':' + (document.activeElement.textContent || '').trim()"
            )
        )
    for button in ("A random step", "SVG", "Markdown"):
        assert f"BUTTON:{button}" in names
    assert any(name.startswith("BUTTON:") and "replica" in name for name in names), (
        "the steps that can be taken"
    )
