"""The site: hand-written and generated pages, gathered in build/docs and built by MkDocs into build/site.

A generated page is a template of this folder with its blocks filled in; in a checkout, links to the page lead to the
template. Links to files that are not on the site become plain text, and every rule number becomes a link to the
rulebook.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from docs.pages import galleries, kept, liveness, quorum, rule_tables, rulebook
from docs.pages.markdown import DOCS, Block, filled, link_numbers, template
from docs.pages.picture import picture
from highwater.checker.base.memory import collect_garbage_rarely

ROOT = DOCS.parent
SOURCES = ROOT / "build" / "docs"
SITE = ROOT / "build" / "site"
CONFIGURATION = DOCS / "mkdocs.yml"
PICTURE = DOCS / "images" / "counterexample.svg"
RULES = "rules.md"

GENERATED: dict[str, Mapping[str, Block]] = {
    "audit.md": rulebook.AUDIT_PAGE,
    "gallery.md": galleries.REPLICATION.blocks,
    "liveness.md": liveness.BLOCKS,
    "profiles.md": rulebook.PROFILES,
    "promise-runs.md": rule_tables.PROMISE,
    "quorum-gallery.md": galleries.QUORUM.blocks,
    "quorum-rules.md": quorum.BLOCKS,
    "replication-rules.md": rule_tables.REPLICATION,
    RULES: rulebook.RULES,
    "truncation-rules.md": rule_tables.TRUNCATION,
    "zookeeper-gallery.md": galleries.ZOOKEEPER.blocks,
    "zookeeper-rules.md": rule_tables.ZOOKEEPER,
}
"""The blocks of each generated page, by the page's name."""

ELSEWHERE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "docs/README.md": "contents.md",
    "docs": "contents.md",
}
"""The paths on the site of pages that have another path in the repository. The README is the front page."""

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|!\[[^\]]*\]\([^)]*\))*)\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.M | re.S)


def generated(name: str) -> str:
    """A generated page, with its blocks filled in."""
    return filled(template(name), GENERATED[name])


def hand_written() -> dict[str, Path]:
    """The files of the hand-written pages, by the page's path on the site."""
    found = {ELSEWHERE.get(f"docs/{p}", str(p)): DOCS / p for p in _pages()}
    return {"index.md": ROOT / "README.md", "contributing.md": ROOT / "CONTRIBUTING.md", **found}


def _pages() -> list[Path]:
    every = (path.relative_to(DOCS) for path in sorted(DOCS.rglob("*.md")))
    return [path for path in every if path.parts[0] != "pages"]


def relinked(text: str, page: Path, place: str, there: frozenset[str]) -> str:
    """Return the Markdown ``text`` of a page, with its links adapted to the site.

    ``page`` is the file of the page, ``place`` is its path on the site, and ``there`` has the paths of all pages on
    the site. Raises ValueError if a link leads to a missing file.
    """

    def link(found: re.Match[str]) -> str:
        image, said, target = found.groups()
        file, _, anchor = target.partition("#")
        said = _LINK.sub(link, said)
        if not file or re.match(r"\w+:", target):
            return f"{image}[{said}]({target})"
        path = os.path.relpath(os.path.normpath(page.parent / file), ROOT)
        new = ELSEWHERE.get(path, path.removeprefix("docs/").removeprefix("pages/"))
        if path in ELSEWHERE or (path.startswith("docs/") and new in there):
            beside = os.path.relpath(new, PurePosixPath(place).parent)
            return f"{image}[{said}]({beside}{'#' * bool(anchor)}{anchor})"
        if not (ROOT / path).exists():
            raise ValueError(f"{page}: {target} leads to no page and no file")
        return said

    return _outside_code(text, link)


def _outside_code(text: str, link: object) -> str:
    """Return ``text`` with each Markdown link outside of code blocks replaced by ``link``, as ``re.sub`` does.

    A link whose text is inline code is replaced, too.
    """
    pieces, end = [], 0
    for block in re.finditer(r"^```.*?^```$", text, re.M | re.S):
        pieces += [_LINK.sub(link, text[end : block.start()]), block[0]]  # type: ignore[call-overload]
        end = block.end()
    return "".join([*pieces, _LINK.sub(link, text[end:])])  # type: ignore[call-overload]


def gather(folder: Path = SOURCES) -> None:
    """Write all pages of the site to an emptied folder, with the images and examples to which they link."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS / "images", folder / "images")
    shutil.copytree(DOCS / "pages" / "theme", folder / "theme")
    shutil.copytree(DOCS / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    texts = {place: (path, path.read_text(encoding="utf-8")) for place, path in hand_written().items()}
    texts |= {name: (DOCS / name, generated(name)) for name in GENERATED}
    drawn = galleries.drawings()
    there = frozenset([*texts, *drawn, *(str(path.relative_to(folder)) for path in folder.rglob("*"))])
    for place, (path, text) in texts.items():
        rules = "" if place == RULES else os.path.relpath(RULES, PurePosixPath(place).parent)
        _write(folder / place, link_numbers(relinked(text, path, place, there), rules))
    for name, drawing in drawn.items():
        _write(folder / name, drawing)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def build() -> int:
    """Build the site from the gathered pages. Returns the exit status of MkDocs."""
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--clean",
        "-f",
        str(CONFIGURATION),
    ]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # it advertises another program
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def main(arguments: list[str]) -> int:
    """Build the site; with ``--only-pages`` stop at the Markdown, with ``--afresh`` repeat all searches.

    New answers are written to answers.json. Returns 2 for an unknown option, the status of MkDocs if it fails, and 1
    if an answer differs from the committed answer.
    """
    if unknown := set(arguments) - {"--only-pages", "--afresh"}:
        print(f"unknown option {min(unknown)}: --only-pages, --afresh", file=sys.stderr)
        return 2
    collect_garbage_rarely()
    with kept.in_mode(kept.Mode.AFRESH if "--afresh" in arguments else kept.Mode.KEPT_FIRST) as answers:
        gather()
        PICTURE.write_text(picture(), encoding="utf-8")
    if answers.new:
        kept.FILE.write_text(answers.text(), encoding="utf-8")
    for changed in answers.changed:
        print(f"answered otherwise than before: {changed}", file=sys.stderr)
    status = 0 if "--only-pages" in arguments else build()
    if not status and "--only-pages" not in arguments:
        print(f"docs: open {(SITE / 'index.html').relative_to(ROOT)}")
    return status or int(bool(answers.changed))
