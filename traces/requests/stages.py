"""What a leader can have known of its partition, and when: the stages that it goes through in a leader epoch.

The metadata log says which ISRs the epoch had, and the controller's requests what the leader proposed in between. The
leader learns of them later, by an answer or by metadata, and no log says when. So at a time of its own clock it can be
in any of several stages: not in one that did not exist yet, and not before one that it has shown to know. Clocks of two
machines are compared for that only, with an allowance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from highwater.traces.requests.acting import Bits
from highwater.traces.requests.history import NEVER, History, Version
from highwater.traces.requests.messages import Proposal

CLOCKS_MS = 250.0
"""So far the clocks of two nodes may be apart."""
OWN_MS = 100.0
"""So much later than the end of a request its line can be stamped, on a machine that is busy."""


@dataclass(slots=True)
class Stage:
    """What a leader goes by: a version of the partition, and the ISR that it has proposed over it, if any.

    It is possible from ``since`` on, and the leader has shown to be there, or further, by ``reached``.
    """

    version: Version
    proposed: frozenset[int] | None
    since: float
    reached: float = NEVER
    bits: Bits | None = None
    """The same in slots, once it was asked for."""
    answers: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """What refuses the fetch of each broker in it, once it was asked."""
    refusals: tuple[tuple[str, ...], bool] | None = None
    """What refuses a write with acks=all in it, and whether its ISR is too small to acknowledge one."""

    @property
    def min_isr(self) -> int:
        """The effective min ISR; 1 where it is not known, which allows the most."""
        return self.version.min_isr or 1


def stages(
    history: History, epoch: int, proposals: Iterable[Proposal], knew: Callable[[int], float]
) -> list[Stage]:
    """The stages of a leader epoch in their order; none where the metadata log has no such epoch.

    ``proposals`` are the leader's in this epoch, in the order of their arrival. ``knew`` says by when, of the
    controller's clock, the leader had surely replayed the metadata log up to an offset.
    """
    found: list[Stage] = []
    waiting = list(proposals)
    versions = list(history.of_epoch(epoch))
    for number, version in enumerate(versions):
        found.append(Stage(version, None, version.time, knew(version.position)))
        following = versions[number + 1].time if number + 1 < len(versions) else NEVER
        while waiting and waiting[0].partition_epoch <= version.state.partition_epoch:
            proposal = waiting[0]
            later = versions[number + 1].state.partition_epoch if number + 1 < len(versions) else -1
            if later == proposal.partition_epoch and proposal.line.arrived > following + CLOCKS_MS:
                break  # a setting changed in between, with the partition as it was
            waiting.pop(0)
            if proposal.partition_epoch < version.state.partition_epoch:
                continue
            members = frozenset(m for m, _ in proposal.members)
            found.append(Stage(version, members, version.time, proposal.line.arrived))
            if proposal.error:
                found.append(Stage(version, None, proposal.line.arrived))
    latest = NEVER
    for stage in reversed(found):
        latest = stage.reached = min(stage.reached, latest)
    return found
