"""The proposals sentence by sentence, from ``model/audit.toml``: the blocks of docs/audit.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from docs.pages.blocks import Block, table
from docs.pages.linking import anchor
from highwater.checker.asking.rulebook import audited
from highwater.model.language.audit import LEFT_OUT, STATUSES, AuditedSentence
from highwater.model.rulebook import AUDIT, RULEBOOK

Entry = dict[str, Any]


def _summary() -> Iterator[str]:
    rows = [(_linked(name), AUDIT.of_proposal(name)) for name in AUDIT.proposals]
    rows.append(("all", list(AUDIT)))
    columns = (
        "proposal",
        "sentences:",
        *(f"{s}:" for s in STATUSES),
        "modelled, and nothing notices a mistake:",
    )
    return table(columns, ((name, *_counts(sentences)) for name, sentences in rows))


def _linked(proposal: str) -> str:
    return f"[{proposal}](#{anchor(proposal)})"


def _counts(sentences: list[AuditedSentence]) -> Iterator[int]:
    yield len(sentences)
    yield from (sum(s.status == status for s in sentences) for status in STATUSES)
    yield sum(map(_is_unnoticed, sentences))


def _is_unnoticed(sentence: AuditedSentence) -> bool:
    return sentence.is_modelled and not sentence.switches and not sentence.noticed


def _unnoticed() -> Iterator[str]:
    found = [s for s in AUDIT if _is_unnoticed(s)]
    yield from (f"- {s.proposal}, {s.rule}: {s.says}" for s in found)


def _sentences(proposal: str) -> Iterator[str]:
    cited = RULEBOOK.cited[proposal]
    yield from (
        f'<a id="{anchor(proposal)}"></a>',
        "",
        f"## {proposal}",
        "",
        f"[{cited.title}]({cited.link})",
    )
    for section, sentences in groupby(AUDIT.of_proposal(proposal), key=lambda s: s.section):
        yield from ("", f"### {section}", "")
        yield from table(
            ("rule", "the proposal", "the model", "a mistake is noticed by"), map(_row, sentences)
        )


def _row(sentence: AuditedSentence) -> Iterator[str]:
    entry = audited.entry(sentence)
    yield sentence.rule
    yield sentence.says
    yield _model(entry)
    yield "–" if sentence.status == LEFT_OUT else _lines(map(_noticed, entry["noticed"])) or "nothing"


def _model(entry: Entry) -> str:
    how = f": {entry['how']}" if entry["how"] else ""
    return _lines([f"**{entry['status']}**{how}", *map(_place, entry["places"])])


def _place(place: Entry) -> str:
    file = place["place"].rpartition(":")[0]
    return f"[`{place['name']}`](../{file})"


def _noticed(entry: Entry) -> str:
    """The properties, and the scenario in which one was seen to fail, with what it takes off beside the switch."""
    properties = ", ".join(f"`{name}`" for name in entry["violates"])
    if not entry["scenario"]:
        return properties
    beside = f", with `{'`, `'.join(entry['with'])}` off too" if entry["with"] else ""
    return f"{properties}{' in ' if properties else ''}`{entry['scenario']}`{beside}"


def _lines(parts: Iterable[str]) -> str:
    return "<br/>".join(parts)


BLOCKS: dict[str, Block] = {"summary": _summary, "unnoticed": _unnoticed, "sentences": _sentences}
