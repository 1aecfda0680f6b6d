"""An audit: which sentences of the proposals a rulebook's model states, and how, read from a TOML file.

The file has ``[[sentences]]``. Each names its proposal and rule, and says whether the model is faithful to it,
simplifies it, or leaves it out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from highwater.model.language.rulebook import Rulebook
from highwater.model.language.toml_tables import TomlTables

FAITHFUL, SIMPLIFIED, LEFT_OUT = "faithful", "simplified", "left out"
STATUSES = (FAITHFUL, SIMPLIFIED, LEFT_OUT)
"""What the model does with a sentence."""


@dataclass(frozen=True)
class AuditedSentence:
    """A sentence of a proposal that states a rule, and what the model makes of it.

    ``says`` is the sentence in few words, ``section`` its place in the proposal. ``how`` says what is simplified, or
    why it is left out. ``at`` names functions of the model. ``switches`` are the rules that can be taken off to break
    it; ``noticed`` are properties and scenarios that notice a mistake, where a switch does not lead to them.
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
        """Whether the model states the sentence, simplified or not."""
        return self.status != LEFT_OUT


class Audit:
    """The sentences, in the order of a TOML file, which is read when it is first used.

    Raises LanguageError, then, if the file is not what an audit looks like.
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
        """What is wrong with a sentence; "" if nothing is."""
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
        """The sentences of a rule."""
        return [s for s in self if s.rule == number]

    def of_proposal(self, name: str) -> list[AuditedSentence]:
        """The sentences of a proposal."""
        return [s for s in self if s.proposal == name]

    @property
    def proposals(self) -> list[str]:
        """The proposals, in the order of the file."""
        return list(dict.fromkeys(s.proposal for s in self))
