"""Pages in a browser: phone, keyboard, light and dark."""

from __future__ import annotations

import re
import xml.etree.ElementTree as xml
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.command import highwater
from tests.generation.incident import write_incident
from tests.pages.conftest import assert_scheme, watched

LATE = ("check", "replication/defect-late-fetch", "--workers", "1")
LOOP = ("check", "replication/liveness-rejected", "--workers", "1")
DIFFERENCE = (
    *("diff", "replication/defect-late-fetch", "--rule", "fetch_response_epoch_check=off"),
    *("--action", "take_fetch_answer"),
)
TRUNCATION = ("check", "truncation/truncate-to-hwm", "--workers", "1")
REGISTER = ("check", "docs/examples/register-hasty.toml")


@pytest.fixture
def opened(browser: Any, written: Callable[..., Path]) -> Iterator[Callable[..., Any]]:
    """Open the page of a command in a watched window."""
    with ExitStack() as windows:

        def open_page(arguments: tuple[str, ...], hash: str = "", **window: Any) -> Any:
            page = windows.enter_context(watched(browser, **window))
            page.goto(written(*arguments).as_uri() + hash)
            return page

        yield open_page


def heading(page: Any) -> str:
    return str(page.locator(".panel h2").inner_text())


def test_a_run_is_stepped_through_by_buttons_keys_and_clicks(opened: Callable[..., Any]) -> None:
    page = opened(LATE)
    assert page.locator("h1").inner_text() == "leader_completeness is violated"
    assert heading(page) == "21. leader 0 takes the answer to its AlterPartition"
    page.get_by_label("one step back (←)").click()
    assert heading(page).startswith("20. ")
    page.keyboard.press("Home")
    assert heading(page) == "1. initial state"
    assert page.get_by_label("first state (Home)").is_disabled()
    page.keyboard.press("ArrowRight")
    assert heading(page) == "2. broker 1 sends a fetch"
    page.locator(".chart .row").nth(2).click()
    assert heading(page) == "3. value 0 is written to leader 0 with acks=all"
    assert page.url.endswith("#1.3")
    changed = page.locator(".changes tr").first.inner_text().split()
    assert changed == ["broker", "0", "brokers.log", "[]", "→", "[(value", "0,", "epoch", "0)]"]
    assert page.locator(".state td.changed").all_inner_texts() == ["[(value 0, epoch 0)]", "PENDING"]
    assert page.locator(".logs .cell.changed").count() == 1
    page.goto(page.url.replace("#1.3", "#1.9"))
    assert heading(page).startswith("9. broker 1 starts and registers"), "an address restores the step"


def test_enabled_steps_and_refusing_guards_are_listed(opened: Callable[..., Any]) -> None:
    page = opened(LATE, "#1.2")
    taken = page.locator(".possible .taken").inner_text()
    page.locator(".refused summary").click()
    rows = page.locator(".refused tbody tr").all_inner_texts()
    assert any("fence_broker" in row and "“" in row for row in rows)
    page.keyboard.press("ArrowRight")
    assert taken.removesuffix("this run does").strip() == heading(page).split(". ", 1)[1]
    assert page.locator(".refused tbody tr").count() > 5, "what is unfolded stays so"


def test_the_part_that_is_false_and_a_rule_one_click_away(opened: Callable[..., Any]) -> None:
    page = opened(LATE)
    part = page.locator(".why.false")
    assert "0 < brokers[1].log.length" in part.locator("code.fails").all_inner_texts()
    assert "brokers[1].log.length is 0" in part.inner_text()
    part.locator("summary").click()
    assert "where it should be true:" in part.inner_text()
    assert page.locator(".verdict .rule").is_hidden()
    page.locator(".verdict button.tag").click()
    assert page.locator(".verdict .rule").inner_text().startswith("P1: ")


def test_the_keyboard_alone_is_enough(opened: Callable[..., Any]) -> None:
    page = opened(REGISTER, "#1.1")
    names = []
    for _ in range(12):
        page.keyboard.press("Tab")
        names.append(
            page.evaluate("(e => e.getAttribute('aria-label') || e.textContent)(document.activeElement)")
        )
    assert {"one step on (→)", "step of the run", "SVG", "Markdown", "Parameters and rules"} <= set(names)
    page.locator(".chart[role=slider]").focus()
    page.keyboard.press("ArrowDown")
    assert (
        page.evaluate("document.activeElement.getAttribute('aria-valuetext')")
        == "2: a client writes to the leader"
    )
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.getAttribute('aria-valuenow')") == "4"


@pytest.mark.parametrize(("arguments", "dark"), [(LATE, False), (LOOP, True)], ids=["light", "dark"])
def test_a_phone_shows_it_without_scrolling_sideways(
    opened: Callable[..., Any], arguments: tuple[str, ...], dark: bool
) -> None:
    page = opened(arguments, width=390, dark=dark)
    page.locator(".fold > summary").evaluate_all("all => all.forEach(s => { s.parentElement.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert_scheme(page, dark=dark)
    smallest = page.evaluate(
        """Math.min(...[...document.querySelectorAll('.page *')]
            .filter(e => e.textContent.trim() && e.getClientRects().length)
            .map(e => parseFloat(getComputedStyle(e).fontSize)))"""
    )
    assert smallest >= 10


def test_log_truncation_is_drawn(opened: Callable[..., Any]) -> None:
    page = opened(TRUNCATION, width=390)
    assert page.locator(".chart.heads text").all_text_contents()[0] == "controller"
    titles = page.locator(".chart .arrow title").all_text_contents()
    assert titles.count("LeaderAndIsr (taken)") == 3
    assert page.locator(".logs .gone").count() == 1, "the record that replica 2 dropped"
    row = page.locator(".chart .row.selected .ground").bounding_box()
    holder = page.locator(".scroller").bounding_box()
    assert holder["y"] <= row["y"]
    assert row["y"] + row["height"] <= holder["y"] + holder["height"] + 1, "the last step is what is seen"


def test_a_loop_and_a_difference_have_their_headings(
    opened: Callable[..., Any], written: Callable[..., Path]
) -> None:
    assert all(written(*arguments).stat().st_size < 1_000_000 for arguments in (LOOP, DIFFERENCE))
    page = opened(LOOP)
    assert page.locator(".verdict .sub").inner_text() == "after 5 steps by a loop of 3 steps"
    assert page.locator(".chart .loop").count() == 1
    assert page.locator(".why.false h2").inner_text().startswith("What does not happen, in state 9")
    page = opened(DIFFERENCE)
    assert page.locator("h1").inner_text() == "take_fetch_answer differs"
    outcomes = page.locator(".why tbody tr").first.locator("td").all_inner_texts()
    assert outcomes == ["0", "0", "1"]
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.locator(".outcomes thead").is_hidden(), "on a phone each value says whose it is"
    said = page.locator(".outcomes td").first.evaluate("cell => getComputedStyle(cell, '::before').content")
    assert said == '"before: "'


def test_pictures_and_texts_can_be_saved(opened: Callable[..., Any]) -> None:
    page = opened(LATE)
    saved = {}
    for button in ("SVG", "SVG ×2", "Markdown"):
        with page.expect_download() as download:
            page.get_by_role("button", name=button, exact=True).click()
        saved[download.value.suggested_filename] = Path(download.value.path()).read_text()
    name = "leader_completeness"
    assert set(saved) == {f"{name}.svg", f"{name}-2x.svg", f"{name}.md"}
    small, large = (xml.fromstring(saved[f"{name}{scale}.svg"]) for scale in ("", "-2x"))
    assert float(large.attrib["width"]) == 2 * float(small.attrib["width"])
    assert not re.search(r"class=|style=|url\(|var\(", saved[f"{name}.svg"])
    texts = [e.text for e in small.iter() if e.tag.endswith("}text")]
    assert "leader 0 takes the answer to its AlterPartition" in texts
    fills = {e.attrib["fill"] for e in small.iter() if e.tag.endswith("}rect")}
    assert {"rgb(10, 79, 140)", "rgb(143, 199, 234)", "#f2c14e"} <= fills, "leader, ISR, ELR"
    assert "| what happens | what changes |" in saved[f"{name}.md"]


def test_hostile_texts_are_shown_and_do_nothing(opened: Callable[..., Any], hostile: str) -> None:
    page = opened(("check", hostile))
    assert "</script><script>alert(6)</script> {{data}} {{policy}}" in page.locator(".over").inner_text()
    assert "</script><script>alert(1)</script>" in heading(page)
    assert "\\u{202e}" in heading(page), "direction is not turned round"
    page.locator(".fold > summary").evaluate_all("all => all.forEach(s => { s.parentElement.open = true; })")
    assert "“<img src=x onerror=alert(5)>”" in page.locator(".refused").inner_text()
    assert page.locator("img, b, i, .page script").count() == 0
    with page.expect_download() as download:
        page.get_by_role("button", name="SVG", exact=True).click()
    tree = xml.parse(download.value.path())
    assert {e.tag.rsplit("}", 1)[1] for e in tree.iter()} <= {
        "svg",
        "g",
        "rect",
        "line",
        "path",
        "circle",
        "text",
        "title",
    }


# --- the page of an incident --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("incident")
    write_incident(folder)
    done = highwater("replay", folder, "--html", folder / "page.html")
    assert done.status == 1, done.output
    return folder / "page.html"


@pytest.fixture
def incident_page(browser: Any, incident: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page in a window of a width, light or dark."""
    width, dark = getattr(request, "param", (1280, True))
    with watched(browser, width=width, dark=dark) as page:
        page.goto(incident.as_uri())
        yield page


@pytest.mark.parametrize(
    ("incident_page", "dark"), [((390, False), False), ((1280, True), True)], indirect=["incident_page"]
)
def test_the_headline_is_on_the_first_screen_above_the_lanes(incident_page: Any, dark: bool) -> None:
    assert (
        incident_page.evaluate("document.documentElement.scrollWidth") <= incident_page.viewport_size["width"]
    )
    sentence = incident_page.get_by_text("orders-0 lost 64 committed records (offsets 120–183)").first
    box = sentence.bounding_box()
    assert 0 < box["y"] < 420
    order = [
        incident_page.get_by_text(text, exact=True).first.bounding_box()["y"]
        for text in ("Timelines", "Violations", "What was read")
    ]
    assert [box["y"], *order] == sorted([box["y"], *order])
    texts = incident_page.locator("svg.timeline text").all_text_contents()
    assert {"broker 0", "broker 1", "broker 2", "min ISR", "log of 0", "log of 1", "log of 2"} <= set(texts)
    assert_scheme(incident_page, dark=dark)


def test_the_arrow_keys_go_from_change_to_change(incident_page: Any) -> None:
    def change() -> int:
        return int(re.search(r"Change (\d+) of \d+", incident_page.locator("body").inner_text())[1])  # type: ignore[index]

    start = change()
    incident_page.locator("svg.timeline[tabindex], [role=slider]").first.focus()
    incident_page.keyboard.press("ArrowLeft")
    assert change() == start - 1
    incident_page.keyboard.press("ArrowRight")
    assert change() == start
