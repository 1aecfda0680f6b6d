"""The site: pages match the cached results, the nav is short, links work, and it builds."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.pages import galleries, kept, picture, site
from docs.pages.markdown import DOCS, template
from docs.pages.rule_tables import replication_rows, subjects
from highwater.model.replication.protocol import Replication
from highwater.model.truncation import Truncation
from tests.docs.generated import generated
from tests.slow import WHOLE, all_but, largest, often, slow, whole_only

QUICK = {
    "audit.md",
    "controller-fields.md",
    "profiles.md",
    "promise-runs.md",
    "rules.md",
    "truncation-rules.md",
}
LONG = {"gallery.md", "liveness.md"}
SUBJECTS = list(subjects())


@pytest.mark.parametrize(
    "name",
    [
        *all_but(QUICK, sorted({*site.GENERATED} - {*LONG}), "traces up to hundreds of models"),
        *(pytest.param(name, marks=largest("traces hundreds of models")) for name in sorted(LONG)),
    ],
)
def test_a_page_is_generated_without_a_search(name: str) -> None:
    text = generated(name)
    assert "{{" not in text
    assert text.startswith("# ")


def test_some_rows_of_the_rules_of_replication_are_generated_without_a_search() -> None:
    with kept.in_mode(kept.Mode.ONLY_KEPT):
        assert len(replication_rows(SUBJECTS[::18])) == len(SUBJECTS[::18])


@slow("searches up to 1.5 million states for each of some rows of the table")
@pytest.mark.parametrize(
    "number", range(0, len(SUBJECTS), often(6, 3)), ids=lambda number: "+".join(SUBJECTS[number][0])
)
def test_a_row_of_the_rules_of_replication_is_found_again(number: int) -> None:
    with kept.in_mode(kept.Mode.ONLY_KEPT):
        before = replication_rows([SUBJECTS[number]])
    with kept.in_mode(kept.Mode.AFRESH):
        assert replication_rows([SUBJECTS[number]]) == before


@slow("repeats a fourth of a page's searches, or all")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=largest("searches for minutes") if name in LONG else ())
        for name in site.GENERATED
        if name != "replication-rules.md"
    ],
)
def test_a_page_is_found_again(name: str) -> None:
    with kept.in_mode(kept.Mode.AFRESH if WHOLE else kept.Mode.SAMPLED):
        assert site.generated(name) == generated(name)


def test_the_committed_picture_is_the_run_of_the_readme() -> None:
    """The picture has no script and loads nothing, so it displays wherever images do."""
    text = site.PICTURE.read_text()
    assert picture.picture() == text
    root = ElementTree.fromstring(text)
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags == {"svg", "title", "style", "rect", "line", "circle", "path", "text"}
    assert "url(" not in text
    assert "href" not in text


def test_the_table_of_replication_has_every_rule_of_the_profile_alone() -> None:
    assert {off[0] for off, _ in SUBJECTS if len(off) == 1} == Replication.profiles["kip_966"].rules


def test_every_truncation_rule_but_one_has_an_effect_on_safety() -> None:
    """A rule without effect would be a switch that does nothing."""
    section = generated("truncation-rules.md").split("## `kip_320`")[1].split("\n## ")[0]
    rows = re.findall(r"\| `(\w+)` off \|[^|]*\| (\S+) \| (\S+) \|", section)
    depths = {rule: (weak, strong) for rule, weak, strong in rows}
    assert set(depths) == set(Truncation.profiles["kip_320"].rules)
    assert {rule for rule, found in depths.items() if found == ("–", "–")} == {"fenced_shrink"}
    assert "| all on | nothing | – | – |" in section


@pytest.mark.parametrize(
    "gallery", [galleries.REPLICATION, galleries.QUORUM, galleries.ZOOKEEPER], ids=lambda g: g.page
)
def test_a_gallery_describes_each_defect(gallery: galleries.Gallery) -> None:
    sections = re.split(r"^### ", template(gallery.page), flags=re.M)[1:]
    assert [section.split("\n")[0] for section in sections] == gallery.names
    for name, section in zip(gallery.names, sections, strict=True):
        note = section.split(f"**{{{{ title {name} }}}}.** ")[1].split(f"{{{{ run {name} }}}}")[0]
        assert len(note.split()) > 8, name


# --- the site -----------------------------------------------------------------------------------------------


def nav() -> list[str]:
    text = site.CONFIGURATION.read_text().split("\nnav:\n")[1]
    return re.findall(r"^ +- .*: (\S+\.md)$", text, re.M)


def test_the_nav_has_at_most_forty_entries_each_of_which_is_there() -> None:
    assert len(nav()) <= 40, "leave a page out: docs/README.md links every one"
    assert len(set(nav())) == len(nav())
    assert set(nav()) <= {*site.GENERATED, *site.hand_written()}


def loaded_from_elsewhere(folder: Path) -> list[str]:
    """The tags of a built site that load something from another host."""
    pages = (path.read_text() for path in folder.rglob("*.html"))
    tags = (tag for page in pages for tag in re.findall(r"<(?:script|img|iframe|link)\b[^>]*>", page))
    return [tag for tag in tags if re.search(r"""(?:src|href)=["']?(?:https?:)?//""", tag)]


@slow("builds the whole site, as make docs does; fast tests build parts")
@whole_only
@pytest.mark.skipif(importlib.util.find_spec("material") is None, reason="the extra docs is not installed")
def test_the_site_builds_and_loads_nothing_from_elsewhere() -> None:
    """MkDocs fails if a link or an anchor is broken."""
    before = kept.FILE.read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "docs.pages"], cwd=DOCS.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert kept.FILE.read_bytes() == before, "answers.json lacks answers: commit what make docs wrote"
    assert loaded_from_elsewhere(site.SITE) == []
