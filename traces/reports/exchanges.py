"""Messages of one partition between brokers, controller and clients, as a timeline has them to be drawn as arrows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

CONTROLLER, CLIENT = "controller", "client"
"""Who is at the end of an arrow, and is no broker."""
FETCH, WRITE, PROPOSAL = "fetch", "write", "AlterPartition"


class ShownRequest(NamedTuple):
    """What is asked, by the kind of message; None and empty where the kind has it not, or the message does not say.

    A fetch: ``offset`` and the ``epoch`` that it is sent in. A proposal: the ``isr``, with leader and partition epoch.
    """

    offset: int | None = None
    epoch: int | None = None
    isr: tuple[int, ...] = ()
    partition_epoch: int | None = None


class ShownAnswer(NamedTuple):
    """What is answered: ``error`` is its name. ``size`` is in bytes, ``offset`` where a batch begins."""

    error: str = ""
    hwm: int | None = None
    size: int = 0
    diverging: tuple[int, int] | None = None
    offset: int | None = None
    isr: tuple[int, ...] = ()
    partition_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A request about a partition, with its answer; None where no answer names the partition.

    Times are in ms since the epoch, by the clock of who answered, its zone taken out. ``number`` counts the messages
    about the partition in the log of who answered, so that it shows where some were left out.
    """

    arrived: float
    answered: float
    sender: int | str
    receiver: int | str
    kind: str
    asked: ShownRequest
    told: ShownAnswer | None
    file: str
    line: int
    number: int

    def row(self, files: dict[str, int]) -> list[object]:
        """As the page's data has it; ``files`` numbers the paths."""
        told = self.told
        answer = None if told is None else [
            told.error, told.hwm, told.size, told.diverging, told.offset, told.isr, told.partition_epoch
        ]  # fmt: skip
        return [
            round(self.arrived, 1), round(max(0.0, self.answered - self.arrived), 1), self.sender, self.receiver,
            self.kind, list(self.asked), answer, files.setdefault(self.file, len(files)), self.line, self.number,
        ]  # fmt: skip
