"""The replay's HTML page: its data is complete, and input text cannot become HTML or a request."""

from __future__ import annotations

import base64
import copy
import hashlib
import html.parser
import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from highwater.traces.replay import replay
from highwater.traces.reports import page as page_module
from highwater.traces.reports.findings import Candidate, Finding, Unexplained
from highwater.traces.reports.observed import PartitionChange, PartitionState
from highwater.traces.reports.page import known_meanings, write_page
from highwater.traces.reports.report import Report, Timeline
from tests.checker.schema import problems
from tests.traces.json_changes import put
from tests.traces.runs.made import bad_run, write

SCHEMA = json.loads((Path(page_module.__file__).parent / "report.schema.json").read_text())
EVIL = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "]]>&lt;&amp;",
    "<img src=x onerror=alert(1)>",
    "\"'`",
    "שלום \u202egnp.exe\u2066",
    "a\x00b\x1b[31m\x7f\x85",
    "line\u2028and\u2029paragraph",
    "\ud800 alone",
    "{{data}} {{summary}} {{policy}}",
    "__proto__",
]


class Elements(html.parser.HTMLParser):
    """Collects a page's elements, and the text of its scripts and styles."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, dict[str, str | None], str]] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

        self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.texts.append((*self.tags[-1], data))


def elements(file: Path) -> Elements:
    found = Elements()
    found.feed(file.read_text())
    found.close()
    return found


def text_of(file: Path, tag: str, **attributes: str) -> str:
    return "".join(
        text
        for name, attrs, text in elements(file).texts
        if name == tag and {k: v for k, v in attrs.items() if k in ("type", "id")} == attributes
    )


def written(tmp_path: Path, *reports: Report, **options: Any) -> tuple[Path, list[dict[str, Any]]]:
    """Write the page; returns its path and the report data read back from it."""
    file = tmp_path / "page.html"
    write_page(reports, file, **options)
    return file, json.loads(text_of(file, "script", type="application/json", id="data"))["reports"]


def state_of(data: dict[str, Any], short: Any) -> PartitionState | None:
    if short == 0:
        return None
    replicas, isr, elr, known = (tuple(data["members"][i]) for i in short[:4])
    rest: dict[str, Any] = {}
    if len(short) > 7:
        adding, removing = (tuple(data["members"][i]) for i in short[8:])
        rest = {"leader_recovery_state": short[7], "adding": adding, "removing": removing}
    leader = None if short[4] == -1 else short[4]
    return PartitionState(replicas, isr, elr, known, leader, short[5], short[6], **rest)


def timelines_of(data: dict[str, Any]) -> dict[str, Timeline]:
    """Decode the compact timelines of a page's report."""
    found = {}
    for name, total, rows in data["timelines"]:
        topic, _, number = name.rpartition("-")
        last, changes = None, []
        for position, time, cause, min_isr, unclean, before, after in rows:
            own = last if before == 1 else state_of(data, before), state_of(data, after)
            said = None if cause == -1 else data["causes"][cause], None if min_isr == -1 else min_isr
            change = PartitionChange(
                position, time, topic, int(number), *own, *said, {-1: None, 0: False, 1: True}[unclean]
            )
            last = change.after
            changes.append(change)
        found[name] = Timeline(name, changes, total)
    return found


def some_state(rng: random.Random) -> PartitionState:
    replicas = tuple(rng.sample(range(9), 3))
    isr = tuple(rng.sample(replicas, rng.randint(0, 3)))
    elr = tuple(r for r in replicas if r not in isr and rng.random() < 0.5)
    known, leader = tuple(rng.sample(replicas, rng.randint(0, 1))), rng.choice([None, *replicas])
    state = PartitionState(replicas, isr, elr, known, leader, rng.randint(0, 50), rng.randint(0, 500))
    if rng.random() < 0.3:
        state = replace(state, leader_recovery_state="RECOVERING", adding=(7,), removing=(8, 9))
    return state


def some_timeline(rng: random.Random, topic: str, partition: int, length: int) -> Timeline:
    changes: list[PartitionChange] = []
    before, position, time = None, rng.randint(0, 99), 1_795_176_007_145
    for _ in range(length):
        after = None if rng.random() < 0.05 else some_state(rng)
        cause = rng.choice(["fence_broker", "alter_partition", "</script>", None])
        choice = rng.choice([None, 1, 2]), rng.choice([None, True, False])
        changes.append(PartitionChange(position, time, topic, partition, before, after, cause, *choice))
        before = after if rng.random() < 0.9 else some_state(rng)
        position, time = position + rng.randint(1, 99), time + rng.randint(-5, 99_999)
    return Timeline(f"{topic}-{partition}", changes, length)


def some_report(seed: int, partitions: int, length: int = 8) -> Report:
    rng = random.Random(seed)
    report = Report("log", "metadata log", "kafka_4_2", ("a", "b"), partitions=partitions)
    for i in range(partitions):
        timeline = some_timeline(rng, "topic", i, length)
        report.timelines[timeline.partition] = timeline
        report.changes += timeline.total
    return report


def in_words(found: dict[str, Any]) -> dict[str, Any]:
    """A page's report without the fields that the JSON report lacks."""
    return {name: value for name, value in found.items() if name not in ("headline", "in_all")}


def test_timelines_come_back_as_they_were(tmp_path: Path) -> None:
    reports = [some_report(seed, 20) for seed in range(3)]
    _, data = written(tmp_path, *reports)
    for report, found in zip(reports, data, strict=True):
        assert timelines_of(found) == report.timelines
        assert in_words(found["report"]) == report.to_json()


def test_findings_without_a_timeline_are_in_the_data(tmp_path: Path) -> None:
    """The page has the text of each promise: the caller's, or else Highwater's own."""
    report = some_report(1, 1)
    report.find(
        Finding("966.6", "elr_only_under_min_isr", "other-1", {"offset": 3}, 5, "said", "risk", "KIP-966")
    )
    report.add(Unexplained({"offset": 4}, None, "other-2", {"x": 1}, (Candidate("act", {"b": 1}),)))
    _, (found,) = written(tmp_path, report)
    (said,) = found["report"]["findings"]
    assert {**said, "facts": {}} == report.findings[0].to_json()
    assert found["report"]["unexplained"] == [report.unexplained[0].to_json()]
    assert found["meanings"] == {"elr_only_under_min_isr": known_meanings()["elr_only_under_min_isr"]}
    report.find(Finding("1", "new", None, {"offset": 3}, None, "said"))
    _, (own,) = written(tmp_path, report, meanings={"new": "It holds.", "not used": "x"})
    assert own["meanings"] == {"new": "It holds."}


def evil_report(text: str) -> Report:
    report = Report(
        text, text, text, (text,), partitions=1, notes=[text], skipped={text: 1}, figures={text: 1}
    )
    change = PartitionChange(1, 2**62, text, 0, None, PartitionState((1,), (1,)), text)
    report.timelines[text] = Timeline(text, [change], 1)
    report.find(Finding(text, text, text, {text: text, "offset": 2**60}, -(2**62), text, text, text))
    candidate = Candidate(text, {text: text}, (text,), (text,), {text: (text, [text])})
    report.add(Unexplained({"offset": 1}, 2**62, text, {text: {text: text}}, (candidate,)))
    return report


@pytest.mark.parametrize("text", EVIL)
def test_no_text_of_the_input_becomes_html(tmp_path: Path, text: str) -> None:
    good, _ = written(tmp_path, evil_report("harmless"))
    expected = elements(good).tags
    file, (found,) = written(tmp_path, evil_report(text))
    assert [t[0] for t in elements(file).tags] == [t[0] for t in expected]
    assert found["report"]["input"] == text
    assert found["report"]["findings"][0]["summary"] == text
    assert found["timelines"][0][0] == text
    assert found["causes"] == [text]
    raw = file.read_text().split('id="data">')[1].split("<script>")[0].split("</script>")[0]
    assert raw.isascii()
    assert not set("<>&\x00\x7f") & set(raw)


def test_values_that_json_or_a_browser_cannot_hold_become_text(tmp_path: Path) -> None:
    deep: Any = []
    for _ in range(900):
        deep = [deep]
    odd: dict[Any, Any] = {
        "nan": float("nan"),
        "set": {3, 1},
        "tuple": (1, 2),
        "big": 2**60,
        5: b"x",
        "deep": deep,
    }
    report = some_report(1, 1)
    report.add(Unexplained({"offset": 1}, None, None, odd, ()))
    _, (found,) = written(tmp_path, report)
    before = found["report"]["unexplained"][0]["before"]
    deep_text = json.dumps(before.pop("deep"))
    assert before == {"nan": "nan", "set": [1, 3], "tuple": [1, 2], "big": str(2**60), "5": "b'x'"}
    assert len(deep_text) < 5000


def test_the_page_needs_nothing_but_itself_and_its_script_sets_text_only(tmp_path: Path) -> None:
    file, _ = written(tmp_path, some_report(1, 2))
    for tag, attributes in elements(file).tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "form"}
        assert not {"src", "href", "style"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]
    text = file.read_text()
    assert re.findall(r"url\((?!#)|@import|fetch\(|XMLHttpRequest|import\(|eval\(|new Function", text) == []
    assert set(re.findall(r"https?://[^\"']*", text)) == {"http://www.w3.org/2000/svg"}
    writes_html = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc|createContextualFragment"
    )
    assert re.findall(writes_html, text_of(file, "script")) == []


def test_the_policy_allows_this_style_and_this_script_only(tmp_path: Path) -> None:
    file, _ = written(tmp_path, some_report(1, 2))
    (policy,) = [
        attributes["content"] or ""
        for tag, attributes in elements(file).tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    allowed = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert allowed["default-src"] == "'none'"
    for directive, text in (("script-src", text_of(file, "script")), ("style-src", text_of(file, "style"))):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert text.strip()
        assert allowed[directive] == f"'sha256-{digest}'"


def through_json(report: Report) -> Any:
    return json.loads(json.dumps(report.to_json()))


def test_the_schema_accepts_a_report_and_no_other_fields(tmp_path: Path) -> None:
    assert problems(through_json(Report("x", "k", "p")), SCHEMA) == []
    report = replay(write(tmp_path / "bad.ndjson", bad_run()))
    assert report.unexplained
    _, (found,) = written(tmp_path, report)
    assert in_words(found["report"]) == through_json(report)
    report.find(Finding("966.6", "p", "t-0", {"file": "a", "line": 2}, None, "said"))
    result = through_json(report)
    assert problems(result, SCHEMA) == []
    for key in SCHEMA["required"]:
        rest = {name: value for name, value in result.items() if name != key}
        assert problems(rest, SCHEMA) == [f"$: {key} is missing"]
    wrong: tuple[tuple[list[Any], Any], ...] = (
        (["records"], -1), (["surprise"], 1), (["interrupted"], 0), (["notes"], [None]),
        (["unexplained", 0, "time"], "noon"), (["unexplained", 0, "position", "line"], 1.5),
        (["unexplained", 0, "position", "file"], None), (["unexplained", 0, "candidates", 0, "refused_by"], "c"),
        (["unexplained", 0, "candidates", 0, "differences", "next_record_id"], [1]),
        (["findings", 0, "certain"], "yes"), (["findings_count", "p"], -1),
    )  # fmt: skip
    for where, value in wrong:
        changed = copy.deepcopy(result)
        put(changed, tuple(where), value)
        assert problems(changed, SCHEMA), where


def objects(schema: Any) -> list[dict[str, Any]]:
    """Every part of the schema that has ``properties``."""
    inner = list(schema.values()) if isinstance(schema, dict) else schema if isinstance(schema, list) else []
    own = [schema] if isinstance(schema, dict) and isinstance(schema.get("properties"), dict) else []
    return own + [found for part in inner for found in objects(part)]


def test_the_schema_says_what_each_field_means() -> None:
    """Every field is described and required, except in ``versions`` and ``position``."""
    versions, position = SCHEMA["properties"]["versions"], SCHEMA["$defs"]["position"]
    assert versions["properties"].keys() < {*versions["required"]}
    for stated in objects(SCHEMA):
        if stated is versions:
            continue
        assert stated is position or set(stated["required"]) == set(stated["properties"])
        for name, part in stated["properties"].items():
            shared = SCHEMA["$defs"].get(part.get("$ref", "").removeprefix("#/$defs/"), {})
            assert part.get("description") or shared.get("description"), name
