"""The example in docs/trace-format.md replays as the page says."""

from __future__ import annotations

import re
from pathlib import Path

from highwater.traces.runs import replay_run

PAGE = (Path(__file__).parents[3] / "docs" / "trace-format.md").read_text(encoding="utf-8")
((EXAMPLE, ANSWER),) = re.findall(r"```json\n(.*?)```.*?```\n(.*?)```", PAGE, re.DOTALL)[:1]


def test_the_example_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_text(EXAMPLE, encoding="utf-8")
    report = replay_run(path)
    assert (report.explained, report.operations) == (True, 4)


def test_the_changed_example_is_not(tmp_path: Path) -> None:
    lines = EXAMPLE.splitlines()
    lines[2] = re.sub(r'"changes": .*', '"changes": {"brokers[0].hwm": 1}}', lines[2])
    path = tmp_path / "run"
    path.write_text("\n".join(lines), encoding="utf-8")
    assert ANSWER in str(replay_run(path))
