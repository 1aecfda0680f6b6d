"""The rulebook as a page, the blocks of docs/rules.md: what ``highwater show NUMBER`` tells without lines and tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from docs.pages.blocks import Block
from docs.pages.linking import anchor
from highwater.checker.asking.rulebook import find
from highwater.model.language.audit import FAITHFUL
from highwater.model.language.rulebook import RuleFamily
from highwater.model.rulebook import RULEBOOK

Entry = dict[str, Any]


def _families() -> Iterator[str]:
    return (f"- [{_called(f)}](#{anchor(_called(f))}): {f.title}" for f in RULEBOOK.families)


def _rules() -> Iterator[str]:
    for family in RULEBOOK.families:
        yield from _family(family)
        for rule in RULEBOOK.of(family):
            entry = find(rule.number, with_tests=False)
            assert entry is not None
            yield from _rule(entry)


def _called(family: RuleFamily) -> str:
    return f"KIP-{family.prefix}" if family.prefix.isdigit() else family.prefix


def _family(family: RuleFamily) -> Iterator[str]:
    name = _called(family)
    yield from ("", f'<a id="{anchor(name)}"></a>', "", f"## {name}: {family.title}", "", family.about)
    for proposal in (RULEBOOK.cited[p] for p in family.proposals):
        yield from ("", f"[{proposal.name}: {proposal.title}]({proposal.link})")


def _rule(entry: Entry) -> Iterator[str]:
    yield from ("", f'<a id="{anchor(entry["name"])}"></a>', "", f"### {entry['name']}: {entry['title']}", "")
    yield from (entry["states"], "", f"**Why.** {entry['why']}")
    if entry["beyond"]:
        yield from ("", f"**Beyond the proposal's letter.** {entry['beyond']}")
    for sentence in entry["sentences"]:
        if sentence["status"] != FAITHFUL:
            yield from ("", f"**{sentence['status'].capitalize()}.** *{sentence['says']}* {sentence['how']}")
    yield from ("", _origin(entry), "")
    yield from (f"- switch `{e['name']}` of {_protocols(e)}: {e['meaning']}" for e in entry["switches"])
    yield from _row(
        "stated by", [f"`{e['name']}` in `{_file(e)}`" for e in entry["functions"] if e["states"]]
    )
    yield from _row("actions", [f"`{e['name']}` of {_protocols(e)}" for e in entry["actions"]])
    for kind in _ONE:
        yield from (f"- {_ONE[kind]} `{e['name']}` of {_protocols(e)}: {e['meaning']}" for e in entry[kind])
    yield from _row("in proofs and replay", [f"`{e['name']}`" for e in entry["helpers"]])
    yield from _row("scenarios", [f"`{e['name']}`" for e in entry["scenarios"]])
    yield from _row(
        "gallery", [f"[{e['name']}]({e['page'].removeprefix('docs/')}#{e['name']})" for e in entry["gallery"]]
    )


_ONE = {"invariants": "invariant", "step_properties": "property of steps", "liveness": "liveness"}


def _origin(entry: Entry) -> str:
    if not entry["from"]:
        return "*No proposal: it is what the rules are held against.*"
    cited = ", ".join(f"[{p['name']}]({p['link']})" for p in entry["from"])
    section = f", *{entry['section']}*" if entry["section"] else ""
    quote = f": “{entry['quote']}”" if entry["quote"] else ""
    return f"From {cited}{section}{quote}"


def _row(title: str, texts: Sequence[str]) -> Iterator[str]:
    if texts:
        yield f"- {title}: {', '.join(texts)}"


def _protocols(entry: Entry) -> str:
    return ", ".join(f"`{p}`" for p in entry["protocols"])


def _file(entry: Entry) -> str:
    return str(entry["place"]).rpartition(":")[0]


BLOCKS: dict[str, Block] = {"families": _families, "rules": _rules}
