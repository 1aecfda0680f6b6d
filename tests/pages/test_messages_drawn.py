"""Messages as arrows on a replay's page in a browser: with findings, hostile texts, and a narrow screen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from highwater.traces.replay import replay
from highwater.traces.reports.page import write_page
from highwater.traces.reports.report import Report
from tests.generation.requests import RequestLogs
from tests.pages.conftest import watched
from tests.slow import slow

pytestmark = slow("starts a browser")
EVIL = "</script><img src=x onerror=alert(1)>‮"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Broker 1 answers a fetch although broker 0 leads: a finding at a message."""
    folder = tmp_path_factory.mktemp("logs")
    with RequestLogs(folder) as made:
        epochs = made.begin([0, 1], [0, 1], [0, 1], 2)
        for offset, f in enumerate((1, 1, 1, 1, 0), 1):
            made.now += 1000
            made.fetch(1 - f, f, epochs[f], 0, offset, 0, offset, 70)
        for _ in range(25):
            made.now += 300
            made.produce(0, -1, error=45)
    found = replay(folder, timelines=True)
    assert "leader_answers_in_its_epoch" in found.findings_count
    return found


@pytest.mark.parametrize("width", [390, 1280])
def test_messages_are_arrows_between_lanes(width: int, report: Report, browser: Any, tmp_path: Path) -> None:
    evil = replace(report, timelines={})
    for name, timeline in report.timelines.items():
        kept = [*timeline.messages, replace(timeline.messages[0], file=EVIL, line=7, sender=EVIL, number=99)]
        evil.timelines[name] = replace(timeline, messages=kept)
    write_page([evil], tmp_path / "page.html")
    with watched(browser, width=width) as page:
        page.goto((tmp_path / "page.html").as_uri())
        assert_drawn(page, width)


def assert_drawn(page: Any, width: int) -> None:
    page.click("details.exchanges > summary")
    page.wait_for_selector(".sent > li.answer")
    assert page.locator(".sent > li.finding").count() == 1
    assert "leader_answers_in_its_epoch" in page.inner_text(".sent > li.finding")
    assert page.locator(".sent .lane-name > title").all_text_contents() == ["broker 0", "broker 1", "client"]
    narrow = page.locator(".sent > li.lanes > svg").bounding_box()
    assert narrow["width"] > 300, "lanes have room"
    words = page.inner_text(".sent")
    assert "broker 1 → broker 0: fetch from 2, leader epoch 0" in words
    assert "metadata log: created" in words
    assert "are left out" in words
    assert r"\u{202e}" in words
    assert page.locator("img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.click("button[aria-label='Fewer messages at once']")
    assert page.locator(".sent > li:is(.request, .answer):has(.arrow), .sent > li.change-row").count() == 14
