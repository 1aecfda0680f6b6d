"""The page shows the messages around each partition event."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from highwater.traces.messages.request_replay import SIDE
from highwater.traces.replay import replay
from highwater.traces.reports.observed import (
    CLIENT,
    CONTROLLER,
    FETCH,
    PROPOSAL,
    WRITE,
    ShownAnswer,
    ShownMessage,
    ShownRequest,
)
from highwater.traces.reports.page import write_page
from highwater.traces.reports.report import Report, Timeline
from tests.generation.requests import TOPIC_ID, RequestLogs

NAME = "t1-0"


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> list[ShownMessage]:
    """100 fetches of one follower, one a second; the ISR shrinks halfway."""
    folder = tmp_path_factory.mktemp("logs")
    with RequestLogs(folder) as made:
        epochs = made.begin([0, 1, 2], [0, 1, 2], [0, 1, 2], 1)
        for at in range(100):
            made.now += 1000
            made.fetch(0, 1, epochs[1], 0, at, -1 if not at else 0, 0, 70)
            if at == 50:
                made.now += 500
                made.records(
                    ("PARTITION_CHANGE_RECORD", {"partitionId": 0, "topicId": TOPIC_ID, "isr": [0, 1]})
                )
                members = [(0, epochs[0]), (1, epochs[1])]
                made.alter(0, epochs[0], 0, 0, members, (0, 0, [0, 1], 1))
                made.produce(0, -1, error=6)
                made.fetch(0, 2, epochs[2], 0, 7, 0, -1, error=74)
                made.fetch(0, 2, epochs[2], 0, 7, 0, 0, diverging=(0, 3))
    report = replay(folder, timelines=True)
    assert replay(folder).timelines == {}
    return report.timelines[NAME].messages


def test_messages_say_what_was_sent_and_answered(messages: list[ShownMessage]) -> None:
    said = {(m.kind, m.sender, m.receiver): m for m in messages}
    proposal = said[(PROPOSAL, 0, CONTROLLER)]
    assert proposal.asked == ShownRequest(None, 0, (0, 1), 0)
    assert proposal.told == ShownAnswer(isr=(0, 1), partition_epoch=1)
    assert said[(WRITE, CLIENT, 0)].told == ShownAnswer("NOT_LEADER_OR_FOLLOWER")
    told = [m.told for m in messages if m.sender == 2]
    assert told == [ShownAnswer("FENCED_LEADER_EPOCH", -1), ShownAnswer("", 0, diverging=(0, 3))]
    first = next(m for m in messages if m.sender == 1)
    assert (first.asked, first.told, first.line) == (ShownRequest(0, 0), ShownAnswer("", 0, 70), 1)
    assert first.answered == first.arrived + 2


def test_message_numbers_jump_where_messages_are_omitted(messages: list[ShownMessage]) -> None:
    """The page keeps messages around the creation and the change; message numbers jump between the two."""
    offsets = [m.asked.offset for m in messages if (m.kind, m.sender) == (FETCH, 1)]
    # Three other messages came just before the change.
    before, behind = range(51 - SIDE + 3, 51), range(51, 51 + SIDE)
    assert offsets == [*range(SIDE), *before, *behind]
    numbers = [m.number for m in messages if m.receiver == 0]
    assert [b - a for a, b in pairwise(numbers) if b - a != 1] == [51 + 3 - 2 * SIDE + 1]


def test_the_page_has_them_as_data(messages: list[ShownMessage], tmp_path: Path) -> None:
    """Each row is read back, and a path that looks like a script stays text."""
    evil = "</script><script>alert(1)</script>"
    report = Report("x", "metadata log", "kafka_4_2")
    kept = [replace(messages[0], file=evil, told=None), messages[-1]]
    report.timelines[NAME] = Timeline(NAME, messages=kept)
    write_page([report], tmp_path / "page.html", {})
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert evil not in text
    assert "{{" not in text
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])["reports"][0]
    assert data["files"] == [evil, messages[-1].file]
    first, last = data["timelines"][0][5]
    assert first == [
        messages[0].arrived, 2.0, 1, 0, FETCH, [0, 0, [], None], None, 0, 1, 1,
    ]  # fmt: skip
    assert last[6] == ["", 0, 70, None, None, [], None]
    assert last[7:] == [1, messages[-1].line, messages[-1].number]
