"""Generated pages: ``python -m docs.pages`` writes them, ``--check`` says which are out of date.

A page is Markdown with computed blocks in it (``docs.pages.blocks``), and here stands what computes them. What was
searched for a page is kept (``docs.analyses.kept``) and searched again where something of it has changed; with
``--afresh`` all of it is, and with ``--sample`` a fourth.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

from docs.analyses import kept
from docs.pages import (
    audit,
    differences,
    gallery,
    kafka_4_2,
    kafka_trunk,
    liveness,
    promise,
    quorum,
    replication_rules,
    rules,
    testing,
    truncation_rules,
    zookeeper,
)  # fmt: skip
from docs.pages.blocks import Block, filled
from docs.pages.linking import PAGE, link_numbers
from docs.pages.picture import picture
from docs.pages.place import DOCS
from highwater.checker.base.memory import collect_garbage_rarely

BLOCKS: dict[str, Mapping[str, Block]] = {
    "truncation-rules.md": truncation_rules.BLOCKS,
    "gallery.md": gallery.REPLICATION.blocks,
    "replication-rules.md": replication_rules.BLOCKS,
    "kafka-trunk.md": kafka_trunk.BLOCKS,
    "kafka-4.2.md": kafka_4_2.BLOCKS,
    "differences.md": differences.BLOCKS,
    "liveness.md": liveness.BLOCKS,
    "promise.md": promise.BLOCKS,
    "quorum.md": quorum.BLOCKS,
    "quorum-gallery.md": gallery.QUORUM.blocks,
    "zookeeper.md": zookeeper.BLOCKS,
    "zookeeper-gallery.md": gallery.ZOOKEEPER.blocks,
    "testing.md": testing.BLOCKS,
    "audit.md": audit.BLOCKS,
    "rules.md": rules.BLOCKS,
}
"""The pages with computed blocks. The rulebook is the last of them: it looks into the others."""

_MODES = {"--afresh": kept.Mode.AFRESH, "--sample": kept.Mode.SAMPLED}
"""Options to how questions are answered."""

PICTURE = "images/counterexample.svg"
PAGES = (*BLOCKS, PICTURE)


def page(name: str) -> str:
    """What a page, or the picture, says today: its blocks computed anew, and rule numbers made links."""
    if name == PICTURE:
        return picture()
    text = filled((DOCS / name).read_text(encoding="utf-8"), BLOCKS[name])
    return link_numbers(text, page="" if name == PAGE else PAGE)


def main(arguments: list[str]) -> int:
    """Write the pages, or with ``--check`` say which differ (exit status 1); names choose among them.

    The status is 2 where there is no page of a name. ``--afresh`` asks all questions again and ``--sample`` one in
    four. What is found is kept, unless it is only to be checked.
    """
    options = {argument for argument in arguments if argument.startswith("--")}
    names = [argument for argument in arguments if argument not in options]
    if unknown := [name for name in names if name not in PAGES] + sorted(options - {"--check", *_MODES}):
        print(f"there is no page {unknown[0]}: {', '.join(PAGES)}", file=sys.stderr)
        return 2
    check = "--check" in options
    collect_garbage_rarely()
    modes = [mode for option, mode in _MODES.items() if option in options]
    with kept.in_mode(modes[0] if modes else kept.Mode.KEPT_FIRST) as answers:
        wrong = [wrong for name in names or PAGES for wrong in _written(name, check=check)]
    if check:
        wrong += [f"answered otherwise than before: {asked}" for asked in answers.changed]
    else:
        kept.FILE.write_text(answers.text(only_used=not names), encoding="utf-8")
    for line in wrong:
        print(line)
    return int(bool(wrong))


def _written(name: str, *, check: bool) -> Iterator[str]:
    """Write a page, or say that it is out of date."""
    path, text = DOCS / name, page(name)
    if not check:
        path.write_text(text, encoding="utf-8")
        print(f"wrote docs/{name}")
    elif path.read_text(encoding="utf-8") != text:
        yield f"docs/{name} is out of date: run make docs"
