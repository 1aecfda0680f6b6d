"""The result of a comparison with Kafka, as text and as JSON: counts, differences, and an example of each difference.

``comparison.py`` compares the states of the controller's protocols, ``walks.py`` the steps of a whole cluster.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from highwater.checker.base.text import paragraph

Plain = dict[str, Any]
KAFKA_THROWS, NO_ANSWER = "Kafka throws", "no answer"
"""In place of the parts that differ, if Kafka throws outside its answer or does not end an operation."""
SIDES = ("the model", "Kafka")
KEPT = 24
"""The most differences of a kind that a result keeps."""
Key = tuple[str, tuple[str, ...]]
"""A kind of difference: the kind of request or the action, and the parts that differ."""


@dataclass
class ConformResult(ABC):
    """The counts and differences of a comparison with Kafka. Each kind of comparison adds its own counts."""

    compared_with: ClassVar[str]
    """The part of Kafka, for the headline."""
    unit: ClassVar[str]
    """Each item that is compared: ``request`` or ``step``."""
    whole: ClassVar[str]
    """A complete comparison covers each of these: ``state`` or ``step``."""
    states: int = 0
    transitions: int = 0
    not_compared: Counter[str] = field(default_factory=Counter)
    """Numbers of requests or transitions that were not compared, by kind or reason."""
    differences: Counter[Key] = field(default_factory=Counter)
    examples: dict[Key, Any] = field(default_factory=dict)
    """The first difference found for each key of ``differences``."""
    more: dict[Key, list[Any]] = field(default_factory=dict)
    """For each kind of difference in answers or after steps, up to KEPT of them."""
    sampled: bool = False
    """True if only a sample was compared."""
    stopped_by: str | None = None
    seconds: float = 0.0

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of units that were compared."""

    @property
    @abstractmethod
    def compared(self) -> str:
        """The counts, as text for the headline."""

    @abstractmethod
    def counts(self) -> Plain:
        """The counts of this kind of comparison, for the JSON."""

    @abstractmethod
    def lines(self) -> Iterator[str]:
        """The lines between the headline and the differences: what was compared by kind, and what was not."""

    @property
    def complete(self) -> bool:
        """True if everything that can be compared was compared."""
        return not self.sampled and self.stopped_by is None

    def summary(self, name: str, *versions: str) -> Iterator[str]:
        """The paragraphs of a summary: a headline, then ``lines``, then the kinds of differences."""
        count = self.differences.total()
        verdict = f"{count:,} DIFFERENCES" if count else "no difference"
        kafkas = (
            f"{'from' if len(versions) == 1 else 'between'} {self.compared_with} {' and '.join(versions)}"
        )
        yield paragraph(f"{name}: {verdict} {kafkas} in {self.states:,} states, {self.compared}")
        yield from self.lines()
        for (kind, fields), number in self.differences.most_common():
            yield paragraph(f"  differs: {kind}: {', '.join(fields)}: {number:,}")

    def to_json(self, examples: Sequence[Example]) -> Plain:
        """The counts and differences as plain data."""
        return {
            "states": self.states,
            "transitions": self.transitions,
            **self.counts(),
            "not_compared": dict(sorted(self.not_compared.items())),
            "differences": by_fields(self.unit, self.differences.most_common()),
            "examples": [example.content for example in examples],
            "stopped_by": self.stopped_by,
            "seconds": round(self.seconds, 3),
        }


def by_fields(unit: str, counts: Sequence[tuple[Key, int]]) -> list[Plain]:
    """Counts of kinds of differences as rows of the JSON."""
    return [{unit: kind, "differs": list(fields), "count": count} for (kind, fields), count in counts]


@dataclass(frozen=True)
class Example:
    """A difference to report: its part of the JSON, its lines, and the content of a file from which to repeat it."""

    content: Plain
    lines: Sequence[str]
    file: Any


@dataclass(frozen=True)
class Sample:
    """The items to compare: all, or a random sample of this size; and each state also by a second path.

    With ``depth``, the sample is of walks of so many steps from the initial state, and nothing is explored.
    """

    sample: int | None = None
    seed: int = 0
    other_paths: bool = False
    depth: int | None = None


def heading(
    kind: str, differs: Sequence[str], sentences: Sequence[str], sides: Sequence[str] = SIDES
) -> Iterator[str]:
    """The first lines about a difference: its kind, and the steps that lead to it."""
    yield ""
    yield paragraph(f"{kind}: {' and '.join(sides)} differ in {', '.join(differs)}")
    for number, sentence in enumerate(sentences, 1):
        yield paragraph(f"  {number}. {sentence}")


def side_by_side(
    one: Mapping[str, Any], other: Mapping[str, Any], titles: Sequence[str] = ("model", "Kafka")
) -> Iterator[str]:
    """Lines with the values of two sides, by default the model's and Kafka's, in two columns."""
    longest = max(map(len, one), default=0)
    first, second = titles
    yield f"    {'':{longest}}  {first:>22}  {second:>22}"
    for name, value in one.items():
        yield f"    {name:{longest}}  {value!s:>22}  {other[name]!s:>22}"


def lines_of_answer(answer: Plain) -> Iterator[str]:
    """Lines with the exception that Kafka throws, if any, and the records that it writes."""
    if "message" in answer:
        yield f"  Kafka throws {answer['exception']}: {answer['message']}"
    for record in answer["records"]:
        yield f"  Kafka writes {record['type']} {json.dumps(record['data'])}"
