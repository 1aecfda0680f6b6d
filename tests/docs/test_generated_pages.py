"""The committed pages are what the model and the engines say today."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from xml.etree import ElementTree

import pytest

from docs import pages
from docs.analyses import findings_4_2, kept, liveness_needs, liveness_standard
from docs.analyses.side_by_side import in_order
from docs.pages import blocks, gallery, kafka_4_2, liveness
from docs.pages.linking import PAGE, link_numbers
from docs.pages.place import DOCS
from docs.pages.replication_rules import rows, subjects
from highwater.checker.base.problems import InternalError
from highwater.model.replication import Replication
from highwater.model.truncation import Truncation
from tests.slow import WHOLE, all_but, often, slow

WHOLE_PAGES = [name for name in pages.PAGES if name != "replication-rules.md"]
"""The table of the other one takes as long as all of these together: of its rows some are asked below."""


@cache
def committed(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


SUBJECTS = list(subjects())
ROWS = committed("replication-rules.md").split("\nThe rules:")[0].split("| --- |")[-1].splitlines()[1:-1]


LARGE = {"kafka-4.2.md", "liveness.md", "replication-rules.md"}
"""They trace hundreds of models, as many as all other pages together: of these some parts are told, fast."""


@pytest.mark.parametrize(
    "name",
    all_but(set(pages.PAGES) - LARGE, pages.PAGES, "all parts of a large page; some of them are told, fast"),
)
def test_a_page_is_what_it_would_be_today(name: str) -> None:
    """Told anew, by answers to just these questions: a model that has changed has none."""
    with kept.in_mode(kept.Mode.ONLY_KEPT):
        assert pages.page(name) == committed(name)


def test_some_rows_of_the_rules_of_replication_are_what_they_would_be_today() -> None:
    with kept.in_mode(kept.Mode.ONLY_KEPT):
        assert rows(SUBJECTS[::3]) == ROWS[::3]


@pytest.mark.parametrize("name", list(findings_4_2.FINDINGS)[::3])
def test_a_finding_of_kafka_4_2_is_what_it_would_be_today(name: str) -> None:
    finding, page = kafka_4_2.BLOCKS["finding"], committed("kafka-4.2.md")
    with kept.in_mode(kept.Mode.ONLY_KEPT):
        told = link_numbers("\n".join(finding(name)).strip("\n"), page=PAGE)
    assert f"<!-- computed: finding {name} -->\n{told}\n<!-- end -->" in page


def test_some_parts_of_what_is_live_are_what_they_would_be_today() -> None:
    """Of each protocol's table one row in four, and one in four of the scenarios that are there for liveness."""
    page = committed("liveness.md")
    with kept.in_mode(kept.Mode.ONLY_KEPT):
        for protocol in blocks.asked_for(page, "standard"):
            names = liveness_standard.names(protocol)
            table = page.split(f"<!-- computed: standard {protocol} -->")[1].split("<!-- end -->")[0]
            told = re.findall(r"^\| ([\w.-]+) \| [\d,]+ \|", table, re.M)
            assert told == [name.rpartition("/")[2] for name in names], (
                "a scenario has no row, or a row no scenario"
            )
            for name in names[::4]:
                assert (
                    blocks.row(liveness.standard_row(name, *liveness_standard.row(name))) in page.splitlines()
                )
        for name in liveness_needs.SCENARIOS[::4]:
            assert link_numbers("\n".join(liveness.needs_section(name)).strip("\n"), page=PAGE) in page


@slow("a fourth of a page's searches, or all; the fast test tells it by what they came to")
@pytest.mark.parametrize("name", WHOLE_PAGES)
def test_a_page_is_what_is_found_afresh(name: str) -> None:
    command = [sys.executable, "-m", "docs.pages", "--check", "--afresh" if WHOLE else "--sample", name]
    done = subprocess.run(command, cwd=DOCS.parent, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr


@slow("up to 1.5 million states with rules off, and with all on; some rows of the table")
@pytest.mark.parametrize(
    "number", range(0, len(SUBJECTS), often(6, 3)), ids=lambda number: "+".join(SUBJECTS[number][0])
)
def test_a_row_of_the_rules_of_replication_is_up_to_date(number: int) -> None:
    with kept.in_mode(kept.Mode.AFRESH):
        assert rows([SUBJECTS[number]]) == [ROWS[number]]


def test_parts_that_are_told_side_by_side_come_in_their_order() -> None:
    """Each in a process of its own where there are several cores; what one raises is raised here."""
    parts = [3, 1, 4, 15, 9, 2, 6]
    assert in_order(parts, lambda part: [str(part)] * part) == [[str(part)] * part for part in parts]
    with pytest.raises((ZeroDivisionError, InternalError), match="by zero"):
        in_order([1, 0], lambda part: 1 // part)


def test_the_table_has_a_row_for_each_subject() -> None:
    rules = [", ".join(re.findall(r"`(\w+)`", row.split("|")[1])) for row in ROWS]
    assert rules == [", ".join(off) for off, _ in SUBJECTS]


def test_links_lead_to_sections() -> None:
    headings = set(re.findall(r"^### (.+)$", committed("gallery.md"), re.M))
    for page in ("gallery.md", "replication-rules.md"):
        assert set(re.findall(r"\]\((?:gallery\.md)?#([\w-]+)\)", committed(page))) <= headings
    assert headings == set(gallery.REPLICATION.names)


@pytest.mark.parametrize("name", ["gallery.md", "quorum-gallery.md", "zookeeper-gallery.md"])
def test_a_gallery_says_something_of_each_defect_under_its_name(name: str) -> None:
    for section in re.split(r"^### ", committed(name), flags=re.M)[1:]:
        told = section.split("\n")[0]
        title, note = section.split("<!-- end -->.** ")[0], section.split("<!-- end -->.** ")[1]
        assert title.endswith(title.split(f"<!-- computed: title {told} -->")[1])
        assert len(note.split(f"\n\n<!-- computed: run {told} -->\n")[0].split()) > 8


def test_the_table_has_every_rule_of_the_profile_alone() -> None:
    table = committed("replication-rules.md").split("\nThe rules:")[0]
    alone = re.findall(r"^\| `(\w+)` \|", table, re.M)
    assert set(alone) == Replication.profiles["kip_966"].rules


def test_every_rule_but_two_has_an_effect_on_safety() -> None:
    """Read off the committed table: a rule without effect would be a switch that does nothing."""
    text = committed("truncation-rules.md")
    section = text.split("## `kip_320`")[1].split("\n## ")[0]
    depths = {
        rule: (weak, strong)
        for rule, weak, strong in re.findall(r"\| `(\w+)` off \|[^|]*\| (\S+) \| (\S+) \|", section)
    }
    assert set(depths) == set(Truncation.profiles["kip_320"].rules)
    assert {rule for rule, found in depths.items() if found == ("–", "–")} == {"fenced_shrink"}
    assert "| all on | nothing | – | – |" in section


def test_the_picture_is_a_picture_by_itself() -> None:
    """No script and nothing from elsewhere, so that it is shown where images are; every step of the run is in it."""
    root = ElementTree.fromstring(committed("images/counterexample.svg"))
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags == {"svg", "title", "style", "rect", "line", "circle", "path", "text"}
    assert "url(" not in committed("images/counterexample.svg")
    assert "href" not in committed("images/counterexample.svg")
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    told = re.findall(
        r"^ +\d+  (.+?)(?:  .*)?$", readme.split("weak_isr (B4) is violated")[1].split("```")[0], re.M
    )
    assert len(told) == 9
    assert [sentence for sentence in told if sentence not in texts] == []


def test_a_page_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """And not the same as none named, which is all of them."""
    assert pages.main(["kafka-4.2"]) == 2
    assert capsys.readouterr().err.startswith("there is no page kafka-4.2: ")
