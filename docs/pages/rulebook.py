"""The blocks of the pages of the rulebook, the audit of the proposals, and the profiles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from docs.pages import galleries
from docs.pages.markdown import Block, anchor, row, table
from highwater.checker.scenarios import catalogue
from highwater.checker.scenarios.rulebook import RulePart, find, parts, sentence_entry
from highwater.model.language.rulebook import FAITHFUL, LEFT_OUT, STATUSES, AuditedSentence, RuleFamily
from highwater.model.rulebook import AUDIT, RULEBOOK

Entry = dict[str, Any]


def _families() -> Iterator[str]:
    return (f"- [{_called(f)}](#{anchor(_called(f))}): {f.title}" for f in RULEBOOK.families)


def _rules() -> Iterator[str]:
    for family in RULEBOOK.families:
        yield from _family(family)
        for rule in RULEBOOK.of(family):
            entry = find(rule.number)
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
    for title, found in parts(entry):
        if title != "mentioned by":
            yield f"- {title}:"
            yield from (f"    - {_part(part)}" for part in found)


def _part(part: RulePart) -> str:
    protocols = f" of {part.protocols}" if part.protocols else ""
    after = f": {part.text}" if part.text else f" in `{part.place.rpartition(':')[0]}`"
    return f"{galleries.links().get(part.name, f'`{part.name}`')}{protocols}{after}"


def _origin(entry: Entry) -> str:
    if not entry["from"]:
        return "*No proposal: it is what the rules are held against.*"
    cited = ", ".join(f"[{p['name']}]({p['link']})" for p in entry["from"])
    section = f", *{entry['section']}*" if entry["section"] else ""
    quote = f": “{entry['quote']}”" if entry["quote"] else ""
    return f"From {cited}{section}{quote}"


RULES: dict[str, Block] = {"families": _families, "rules": _rules}


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
            ("rule", "the proposal", "the model", "a mistake is noticed by"), map(_audit_row, sentences)
        )


def _audit_row(sentence: AuditedSentence) -> Iterator[str]:
    entry = sentence_entry(sentence)
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
    """The properties that detect a mistake, the scenario that violates them, and any other rules that are off in it."""
    properties = ", ".join(f"`{name}`" for name in entry["violates"])
    if not entry["scenario"]:
        return properties
    beside = f", with `{'`, `'.join(entry['with'])}` off too" if entry["with"] else ""
    return f"{properties}{' in ' if properties else ''}`{entry['scenario']}`{beside}"


def _lines(parts: Iterable[str]) -> str:
    return "<br/>".join(parts)


AUDIT_PAGE: dict[str, Block] = {"summary": _summary, "unnoticed": _unnoticed, "sentences": _sentences}


_SHOWN = ("before_kip_966", "kip_966_first_phase", "kip_966", "kafka_4_0", "kafka_4_2", "kafka_4_3")


def _profiles() -> Iterator[str]:
    """The rules of replication and its controller in which the shown profiles differ."""
    protocols = [catalogue.load(name).protocol for name in ("replication", "replication.controller")]
    columns = ("rule", "says", *(f"`{name}`" for name in _SHOWN))
    yield from table(columns, [])
    seen: set[str] = set()
    for protocol in protocols:
        shown = [protocol.profiles[name].rules if name in protocol.profiles else None for name in _SHOWN]
        for name, rule in protocol.rules.items():
            cells = ["" if on is None else "on" if name in on else "off" for on in shown]
            if name not in seen and len(set(cells) - {""}) > 1:
                seen.add(name)
                yield row((f"`{name}` ({rule.source})", rule.sentence, *cells))


PROFILES: dict[str, Block] = {"profiles": _profiles}
