"""The replay's page as headless Chromium renders it."""

from __future__ import annotations

import html.parser
import shutil
import subprocess
from pathlib import Path

import pytest

from highwater.traces.replay import replay
from highwater.traces.reports.findings import Finding
from highwater.traces.reports.page import write_page
from highwater.traces.reports.report import Report
from tests.slow import slow
from tests.traces.kafka.made import CLUSTERS_4_2, needs_clusters_4_2
from tests.traces.metadata.made_logs import beginning, change, default, setting, write

CHROMIUM = shutil.which("chromium")
UNCLEAN, MIN_ISR = "unclean.leader.election.enable", "min.insync.replicas"

pytestmark = [
    slow("starts a browser for each page"),
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium"),
]


class Drawn(html.parser.HTMLParser):
    """The elements of a rendered page with their attributes, and its texts in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._inside, self._is_hidden = "html", False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._inside = tag
        self._is_hidden |= tag == "noscript"

    def handle_endtag(self, tag: str) -> None:
        self._is_hidden &= tag != "noscript"

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style") and not self._is_hidden and data.strip():
            self.texts.append(data)

    def boxes(self, name: str) -> list[tuple[float, float]]:
        """The start and end x of each timeline rectangle of a class, without the legend's."""
        found = [a for tag, a in self.found if tag == "rect" and a.get("class") == name and a.get("x") != "1"]
        return [(float(a["x"] or 0), float(a["x"] or 0) + float(a["width"] or 0)) for a in found]


def drawn(report: Report, folder: Path) -> Drawn:
    folder.mkdir(exist_ok=True)
    page = folder / "page.html"
    write_page([report], page)
    assert CHROMIUM is not None
    run = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}",
            "--window-size=1280,2000", "--virtual-time-budget=3000", "--dump-dom", page.as_uri(),
        ],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    return Drawn(run.stdout)


def made(folder: Path, *values: bytes) -> Report:
    return replay(write(folder / "log", [*beginning(), *values]), timelines=True)


def test_the_band_under_min_isr_ends_where_the_setting_changes(tmp_path: Path) -> None:
    """Lowering the setting ends the band after 6 of 22 records; otherwise the next ISR change ends it."""
    ends = []
    for name, value in (("lowered", "1"), ("as it was", "2")):
        nothing = [default(str(i), "some.setting") for i in range(20)]
        values = [
            change(0, isr=[0]),
            *nothing[:5],
            setting(MIN_ISR, value),
            *nothing[5:],
            change(0, isr=[0, 1]),
        ]
        report = made(tmp_path / name, *values)
        del report.timelines["u-0"]
        report.find(Finding("r", "p", "t-0", {"offset": 12}, None, "so that it is unfolded"))
        ((start, end),) = drawn(report, tmp_path / name).boxes("strip-under")
        ends.append(end - start)
    assert ends[0] / ends[1] == pytest.approx(6 / 22, abs=0.01)


@needs_clusters_4_2
def test_a_recorded_incident(tmp_path: Path) -> None:
    cluster = CLUSTERS_4_2 / "unclean-requests-elr"
    logs = sorted(cluster.glob("logs/node*/*.log.gz"))
    report = replay(cluster / "__cluster_metadata-0", broker_logs=logs, timelines=True)
    found = drawn(report, tmp_path)
    text = " ".join(found.texts)
    assert "169 records: at least 121 committed records lost (t1-0)" in text
    assert "DATA LOSS: t1-0 lost at least 67 committed records (offsets 36–102)" in text
    assert "Change 4 of 15" in text, "the election is selected"
    assert "log of 2" in text
    assert len([a for tag, a in found.found if tag == "path" and a.get("class") == "leo"]) == 3
    ((on_from, on_to),) = found.boxes("setting-on")
    assert on_from < on_to
