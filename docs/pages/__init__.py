"""Generated pages: ``python -m docs.pages`` writes them, ``--check`` says which are out of date.

A page is a function that computes its text from the model and the engines. Tests hold the committed pages
against what is generated.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from docs.pages import notes, quorum_notes, zookeeper_notes
from docs.pages.differences import differences_page
from docs.pages.kafka_4_2 import kafka_4_2
from docs.pages.kafka_trunk import kafka_trunk
from docs.pages.linking import link_numbers
from docs.pages.liveness import liveness_page
from docs.pages.picture import picture
from docs.pages.promise import promise_page
from docs.pages.quorum import quorum_page
from docs.pages.replication_rules import replication_rules
from docs.pages.rules import rules_page
from docs.pages.truncation_rules import truncation_rules
from docs.pages.zookeeper import zookeeper_page

DOCS = Path(__file__).resolve().parents[1]


def _linked(page: Callable[[], str]) -> Callable[[], str]:
    """A page whose rule numbers are links to the page of all rules."""
    return lambda: link_numbers(page())


_PAGES: dict[str, Callable[[], str]] = {
    "truncation-rules.md": truncation_rules,
    "gallery.md": notes.GALLERY.page,
    "replication-rules.md": replication_rules,
    "kafka-trunk.md": kafka_trunk,
    "kafka-4.2.md": kafka_4_2,
    "differences.md": differences_page,
    "liveness.md": liveness_page,
    "promise.md": promise_page,
    "quorum.md": quorum_page,
    "quorum-gallery.md": quorum_notes.GALLERY.page,
    "zookeeper.md": zookeeper_page,
    "zookeeper-gallery.md": zookeeper_notes.GALLERY.page,
    "rules.md": rules_page,
}

PAGES = {**{name: _linked(page) for name, page in _PAGES.items()}, "images/counterexample.svg": picture}
"""The generated pages: file name in docs/ and what writes it. The rulebook is the last page: it looks into them."""


def main(arguments: list[str]) -> int:
    """Write the pages, or with ``--check`` say which differ (exit status 1); names choose among them.

    The status is 2 where there is no page of a name.
    """
    status = 0
    names = [argument for argument in arguments if argument != "--check"]
    if unknown := [name for name in names if name not in PAGES]:
        print(f"there is no page {unknown[0]}: {', '.join(PAGES)}", file=sys.stderr)
        return 2
    chosen = names or list(PAGES)
    for name in chosen:
        path, text = DOCS / name, PAGES[name]()
        if "--check" in arguments:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                print(f"docs/{name} is out of date: run make docs")
                status = 1
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote docs/{name}")
    return status


__all__ = ["DOCS", "PAGES", "link_numbers", "main"]
