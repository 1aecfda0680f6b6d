"""Rulebooks and audits, read from TOML files. An error names the file, the table and the field."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from highwater.model.language.errors import LanguageError, meant, shortened

_T = TypeVar("_T")


class TomlTables:
    """A TOML file whose tables are read as dataclasses; each field is a text or a list of texts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def text(self) -> str:
        """The content of the file. Raises OSError or UnicodeDecodeError."""
        try:
            return self.path.read_text(encoding="utf-8")
        except NotADirectoryError:  # inside an archive that Python imports from, as on Spark's executors
            import zipfile

            archive = next(p for p in self.path.parents if p.is_file())
            with zipfile.ZipFile(archive) as opened:
                return opened.read(self.path.relative_to(archive).as_posix()).decode("utf-8")

    def plain(self, kind: str, keys: Collection[str]) -> Mapping[str, object]:
        """The file's content as plain data.

        Raises LanguageError if the file cannot be read, is not TOML, or has a key outside ``keys``.
        ``kind`` names the file's kind in the message.
        """
        try:
            plain = tomllib.loads(self.text())
        except (OSError, ValueError, RecursionError) as wrong:  # not TOML, not text, or nested too deeply
            raise self.wrong(str(wrong)) from None
        if unknown := set(plain) - set(keys):
            *others, last = keys
            known = f"{', '.join(others)} and {last}" if others else last
            raise self.wrong(f"{kind} has {known}, not {_listed(unknown)}")
        return plain

    def tables(self, plain: Mapping[str, object], key: str) -> list[object]:
        """The tables of the array of tables ``key``; an empty list if the array is missing."""
        tables = plain.get(key, [])
        if not isinstance(tables, list):
            raise self.wrong(f"[[{key}]] is a list of tables")
        return tables

    def read(self, kind: type[_T], what: str, plain: object, **given: object) -> _T:
        """Read a table as a dataclass whose fields are texts and lists of texts.

        Each run of white space in a text becomes one space. ``given`` sets fields of the dataclass that the table
        itself must not have. Raises LanguageError if a field is unknown, missing or empty, or has the wrong type;
        ``what`` names the table.
        """
        if not isinstance(plain, dict):
            raise self.wrong(f"{what} is a table")
        known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
        settable = set(known) - set(given)
        for key, value in plain.items():
            if key not in settable:
                raise self.wrong(f"{what} has {key!r}; it can have {_listed(settable)}")
            texts = known[key].type == "str"
            if not (isinstance(value, str) if texts else _is_list_of_texts(value)):
                raise self.wrong(f"{key} of {what} is {'a text' if texts else 'a list of texts'}")
            given[key] = " ".join(value.split()) if texts else tuple(value)
        for key, known_field in known.items():
            if known_field.default is MISSING and not given.get(key):
                raise self.wrong(f"{what} has no {key}")
        return kind(**given)

    def wrong(self, message: str) -> LanguageError:
        """A LanguageError about this file, for the caller to raise."""
        inside = self.path.is_relative_to(Path.cwd())
        return LanguageError(message, str(self.path.relative_to(Path.cwd()) if inside else self.path))


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


# A rulebook: the rules by number, read from a TOML file such as ``model/rulebook.toml``.
#
# The file has ``[proposals.NAME]`` with title and link, ``[[families]]`` with the prefix of their numbers, and
# ``[[rules]]`` with number, title, statement and reason. A protocol with a rulebook (``Protocol.rulebook``) can name
# only numbers of the rulebook.

_NUMBER = re.compile(r'^number = "([^"\\\n]+)"$', re.MULTILINE)


@dataclass(frozen=True)
class RuleSource:
    """A document that rules come from."""

    name: str
    title: str
    link: str


@dataclass(frozen=True)
class RuleFamily:
    """The rules whose numbers have the same prefix: the rules of one proposal, or of one kind."""

    prefix: str
    title: str
    about: str
    proposals: tuple[str, ...] = ()

    def has(self, number: str) -> bool:
        """True if a number has this family's prefix: ``966.4`` belongs to ``966``, ``B4`` to ``B``."""
        return (
            re.fullmatch(re.escape(self.prefix) + (r"\.\d+" if self.prefix.isdigit() else r"\d+"), number)
            is not None
        )


@dataclass(frozen=True)
class NumberedRule:
    """A rule of the rulebook: its statement, reason and source.

    ``proposal`` names the proposals that the rule comes from; empty: the proposals of its family. ``section`` and
    ``quote`` are the rule's place and words in the first proposal. ``beyond`` describes what the rule adds to the
    proposal's text; "" if it adds nothing.
    """

    number: str
    title: str
    states: str
    why: str
    proposal: tuple[str, ...] = ()
    section: str = ""
    quote: str = ""
    beyond: str = ""


@dataclass(frozen=True)
class _Content:
    proposals: Mapping[str, RuleSource]
    families: tuple[RuleFamily, ...]
    rules: Mapping[str, NumberedRule]


class Rulebook(Mapping[str, NumberedRule]):
    """The rules by number, in the order of a TOML file, which is read on first use.

    Reading raises LanguageError if an entry of the file is missing, empty, repeated or unknown.
    """

    def __init__(self, path: Path, *, tested: bool = False) -> None:
        # Tests check a shipped rulebook, so a look-up of a number need not parse the whole file.
        self.path, self._tested = path, tested
        self._file = TomlTables(path)
        self._base: Rulebook | None = None

    @cached_property
    def _content(self) -> _Content:
        file = self._file
        plain = file.plain("a rulebook", ("proposals", "families", "rules"))
        named = plain.get("proposals", {})
        if not isinstance(named, dict):
            raise file.wrong("[proposals.NAME] are tables")
        base = self._base._content if self._base is not None else _Content({}, (), {})
        proposals = {n: file.read(RuleSource, f"proposal {n}", entry, name=n) for n, entry in named.items()}
        proposals = {**base.proposals, **proposals}
        families = [*base.families]
        families += [
            file.read(RuleFamily, f"family {i}", e) for i, e in enumerate(file.tables(plain, "families"), 1)
        ]
        rules: dict[str, NumberedRule] = {**base.rules}
        for i, entry in enumerate(file.tables(plain, "rules"), 1):
            known = entry.get("number") if isinstance(entry, dict) else None
            rule = file.read(NumberedRule, f"rule {known if isinstance(known, str) else i}", entry)
            if rule.number in rules:
                raise file.wrong(f"rule {rule.number} is there twice")
            if sum(f.has(rule.number) for f in families) != 1:
                raise file.wrong(f"rule {rule.number} is of no family, or of several")
            rules[rule.number] = rule
        for what, cited in (
            *((f"family {f.prefix}", f.proposals) for f in families),
            *((f"rule {r.number}", r.proposal) for r in rules.values()),
        ):
            for name in cited:
                if name not in proposals:
                    raise file.wrong(f"{what} comes from {name!r}, which is not in [proposals]")
        return _Content(proposals, tuple(families), rules)

    def __or__(self, other: Rulebook) -> Rulebook:
        """A rulebook with the rules of this one and of ``other``, for a protocol that extends another protocol."""
        joined = Rulebook(other.path)
        joined._base = self if other._base is None else self | other._base
        return joined

    def __getitem__(self, number: str) -> NumberedRule:
        return self._content.rules[number]

    def __contains__(self, number: object) -> bool:
        return (self._tested and number in self._numbers) or number in self._content.rules

    @cached_property
    def _numbers(self) -> frozenset[str]:
        """All rule numbers, found in the file's lines without parsing it; empty if the file cannot be read."""
        with suppress(OSError, UnicodeDecodeError):
            return frozenset(_NUMBER.findall(self._file.text()))
        return frozenset()

    def __iter__(self) -> Iterator[str]:
        return iter(self._content.rules)

    def __len__(self) -> int:
        return len(self._content.rules)

    @property
    def families(self) -> tuple[RuleFamily, ...]:
        """All families of rules, in the order of the file."""
        return self._content.families

    def family(self, number: str) -> RuleFamily:
        """The family to which the rule of this number belongs."""
        return next(f for f in self.families if f.has(number))

    def of(self, family: RuleFamily) -> list[NumberedRule]:
        """The rules of a family, in the order of the file."""
        return [rule for rule in self.values() if family.has(rule.number)]

    @property
    def cited(self) -> Mapping[str, RuleSource]:
        """The proposals and other documents that rules come from, by name."""
        return self._content.proposals

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """A pattern that finds rule numbers of the rulebook in a text, but not inside longer words and numbers."""
        longest_first = sorted(self, key=len, reverse=True)
        return re.compile(
            rf"(?<![\w.\-/#])(?:{'|'.join(map(re.escape, longest_first)) or '(?!)'})(?!\w|\.\d|-\w)"
        )

    def proposals(self, number: str) -> list[RuleSource]:
        """The proposals that the rule of this number comes from; empty if there are none."""
        names = self[number].proposal or self.family(number).proposals
        return [self._content.proposals[name] for name in names]

    def origin(self, source: str) -> str:
        """The names of all proposals that a source's rules come from, joined by commas; "" if there are none."""
        found = [p.name for number in numbers(source) if number in self for p in self.proposals(number)]
        return ", ".join(dict.fromkeys(found))


def numbers(source: str) -> list[str]:
    """The rule numbers in a source: ``"B4, 966.6"`` has two."""
    return [part.strip() for part in source.split(",") if part.strip()]


def check_source(book: Mapping[str, object] | None, source: str, what: str, place: str | None) -> None:
    """Raises LanguageError, with the place, if a source names a number that is not in the rulebook.

    If ``book`` is None, every source is valid. ``what`` names the rule, action or property with this source; ``place``
    is its ``file:line`` with the full path.
    """
    if book is None:
        return
    for number in numbers(source):
        if number not in book:
            near = meant(number, book, cutoff=0.5)
            raise LanguageError(
                f"{what} names {number!r}, which is not in the rulebook{near}; add rules with "
                "`rulebook = Base.rulebook | Rulebook(path)` in the class",
                shortened(place),
            )


# An audit: the sentences of the proposals, read from a TOML file.
#
# The file has ``[[sentences]]``. Each table names a sentence's proposal, rule and status: the model is faithful to the
# sentence, simplifies it, or leaves it out.

FAITHFUL, SIMPLIFIED, LEFT_OUT = "faithful", "simplified", "left out"
STATUSES = (FAITHFUL, SIMPLIFIED, LEFT_OUT)
"""The possible statuses of a proposal's sentence in the model."""


@dataclass(frozen=True)
class AuditedSentence:
    """A sentence of a proposal that states a rule, and its status in the model.

    * ``says``: the sentence in few words; ``section``: its place in the proposal.
    * ``how``: how the model simplifies the sentence, or why the model leaves it out.
    * ``at``: the functions of the model that implement the sentence.
    * ``switches``: the rules without which the sentence does not hold.
    * ``noticed``: properties and scenarios that detect a mistake in these functions, in addition to those that detect
      that a rule of ``switches`` is off.
    """

    proposal: str
    section: str
    says: str
    rule: str
    status: str
    how: str = ""
    at: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    noticed: tuple[str, ...] = ()

    @property
    def is_modelled(self) -> bool:
        """True if the model includes the sentence, simplified or not."""
        return self.status != LEFT_OUT


class Audit:
    """The audited sentences, in the order of a TOML file, which is read on first use.

    The first use raises LanguageError if the file has a mistake.
    """

    def __init__(self, path: Path, book: Rulebook) -> None:
        self.path, self.book = path, book

    @cached_property
    def _sentences(self) -> tuple[AuditedSentence, ...]:
        file = TomlTables(self.path)
        plain = file.plain("an audit", ("sentences",))
        found: list[AuditedSentence] = []
        for i, entry in enumerate(file.tables(plain, "sentences"), 1):
            sentence = file.read(AuditedSentence, f"sentence {i}", entry)
            if wrong := self._mistake(sentence):
                raise file.wrong(f"sentence {i} ({sentence.rule}) {wrong}")
            if any((s.proposal, s.says) == (sentence.proposal, sentence.says) for s in found):
                raise file.wrong(f"sentence {i} ({sentence.rule}) is there twice")
            found.append(sentence)
        return tuple(found)

    def _mistake(self, sentence: AuditedSentence) -> str:
        """The mistake in an audited sentence, as the end of an error message; "" if there is none."""
        if sentence.rule not in self.book:
            return "names a rule that is not in the rulebook"
        if sentence.proposal not in self.book.cited:
            return f"is of {sentence.proposal!r}, which is not in the rulebook"
        if sentence.status not in STATUSES:
            return f"has the status {sentence.status!r}; it can be {', '.join(STATUSES)}"
        if sentence.status != FAITHFUL and not sentence.how:
            return f"is {sentence.status}, and has no how"
        if not sentence.is_modelled and (sentence.at or sentence.switches or sentence.noticed):
            return "is left out, and has a place in the model"
        if sentence.is_modelled and not sentence.at:
            return f"is {sentence.status}, and has no at"
        return ""

    def __iter__(self) -> Iterator[AuditedSentence]:
        return iter(self._sentences)

    def __len__(self) -> int:
        return len(self._sentences)

    def of_rule(self, number: str) -> list[AuditedSentence]:
        """The audited sentences that state the rule of this number."""
        return [s for s in self if s.rule == number]

    def of_proposal(self, name: str) -> list[AuditedSentence]:
        """The audited sentences of the proposal of this name."""
        return [s for s in self if s.proposal == name]

    @property
    def proposals(self) -> list[str]:
        """The names of the audited proposals, in the order of the file."""
        return list(dict.fromkeys(s.proposal for s in self))
