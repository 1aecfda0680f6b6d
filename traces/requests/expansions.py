"""What a leader had heard when it proposed an ISR (B5, 841.1, 903.2, 903.3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from highwater.invariants import statements
from highwater.traces.requests.context import Context
from highwater.traces.requests.forms import NO_EPOCH
from highwater.traces.requests.leading import LINES_MS, Leadership
from highwater.traces.requests.messages import Proposal
from highwater.traces.requests.stages import CLOCKS_MS, Stage
from highwater.traces.requests.verdicts import PROPOSED
from highwater.traces.rules import log_rules

SENT_MS = 30_000.0
"""So long before it arrives a proposal can have been made: it is given up and sent again after that."""
INELIGIBLE = 107
"""The error by which a proposal is over."""


@dataclass(slots=True)
class Waiting:
    """A proposal until the lines are there of all fetches before it: who joins, and whose best fetch is enough."""

    proposal: Proposal
    stage: Stage
    """The first in which the partition is as the proposal says."""
    joining: frozenset[int]
    until: float
    """Up to here, of the leader's clock, a fetch can have been before the proposal."""
    fits: set[int] = field(default_factory=set)
    passed: float | None = None
    """How long the node had been active when its log passed the proposal."""
    late: dict[int, float] = field(default_factory=dict)
    """Of each who joins by how many ms its first fetch that is enough came too late."""
    best: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """Of each who joins the offset of its last fetch, with the least HWM and the least epoch start of then."""


def waiting(led: Leadership, proposals: list[Proposal]) -> list[Waiting]:
    """The leader's proposals with the versions that they are about; those about none are left out."""
    found = []
    first: dict[int, Stage] = {}
    for stage in led.stages:
        first.setdefault(stage.version.state.partition_epoch, stage)
    for proposal in proposals:
        known = first.get(proposal.partition_epoch)
        if known is not None:
            members = frozenset(m for m, _ in proposal.members)
            joining = members - set(known.version.state.isr)
            found.append(Waiting(proposal, known, joining, proposal.line.arrived + CLOCKS_MS))
    return found


def watched(pending: Iterable[Waiting]) -> frozenset[int]:
    """The brokers of whom a proposal waits to learn whether a fetch makes them eligible."""
    return frozenset(f for w in pending for f in w.joining if f not in w.fits and f not in w.late)


def noted(context: Context, led: Leadership, pending: list[Waiting], f: int, taken: float) -> None:
    """A fetch was noted: whether it makes the follower eligible for what is proposed next."""
    for wanted in pending:
        if f not in wanted.joining or f in wanted.fits or f in wanted.late:
            continue
        heard, slot = led.heard[f], led.slot_of(f)
        if slot is None:
            continue
        leading, offsets = led.ranked(wanted.stage, {f: heard.offset}, led.least(), (led.leso,))
        known = heard.epoch < 0 or context.spine.registered(f, heard.epoch) <= wanted.until
        refused = led.acting.expansion_refused(
            leading._replace(proposed=-1), slot, offsets.index(led.leso), epoch_fits=known
        )
        if taken > wanted.until:
            if not refused:
                wanted.late[f] = taken - wanted.until
            continue
        wanted.best[f] = (heard.offset, led.low, led.leso)
        if not refused:
            wanted.fits.add(f)
    led.watched = watched(pending)


def judge(
    context: Context, led: Leadership, pending: list[Waiting], now: float, ends: bool = False
) -> list[Waiting]:
    """Judge the proposals whose time is over, of some in the order of their arrival; those that are left."""
    if pending and now < pending[0].until and not ends:
        return pending
    left: list[Waiting] = []
    passed = 0
    for wanted in pending:
        if now < wanted.until and not ends:
            break
        passed += 1
        if wanted.passed is None and now >= wanted.until:
            wanted.passed = led.active
        if wanted.passed is not None and led.active >= wanted.passed + LINES_MS:
            _judge(context, led, wanted)
        elif not ends:
            left.append(wanted)
        elif wanted.passed is None or wanted.joining - wanted.fits:
            context.verdicts.guessed["what a leader had heard where its log ends"] += 1
        else:
            _judge(context, led, wanted)
    return pending if passed == len(left) else left + pending[passed:]


def _judge(context: Context, led: Leadership, wanted: Waiting) -> None:
    proposal, verdicts = wanted.proposal, context.verdicts
    is_right = True
    if {m for m, _ in proposal.members} == set(
        wanted.stage.version.state.isr
    ) and not wanted.stage.version.is_recovering:
        guards = ("the follower is outside the ISR", "the follower is in the ISR")
        verdicts.not_explained(proposal.line, led.name, PROPOSED, guards, None, leader=led.broker)
        return
    for member, epoch in proposal.members:
        if member != led.broker:
            is_right &= _epoch(context, led, wanted, member, epoch)
    for f in sorted(wanted.joining - wanted.fits):
        if f not in wanted.best and not led.is_whole:
            verdicts.guessed["what a leader had heard before its log begins"] += 1
            continue
        is_right = False
        if f in wanted.late and led.apart is not None:
            led.apart.join(wanted.proposal.line, wanted.late[f])
        _too_soon(context, led, wanted, f)
    if wanted.fits and led.apart is not None:
        led.apart.joins_in_time += 1
    if is_right:
        verdicts.explained[PROPOSED] += 1


def _too_soon(context: Context, led: Leadership, wanted: Waiting, f: int) -> None:
    """B5. A follower was proposed that no fetch made eligible."""
    line = wanted.proposal.line
    leo, hwm, start = wanted.best.get(f, (-1, led.least(), led.leso))
    if log_rules.isr_joined_caught_up(leo=leo, hwm=hwm, epoch_start=start):
        guards = ("the follower is eligible",)
        context.verdicts.not_explained(line, led.name, "propose_expand", guards, None, leader=led.broker, f=f)
        return
    at = f"its fetches reached {leo}" if f in wanted.best else "it had not fetched in this leader epoch"
    context.finding(
        statements.isr_joined_caught_up, "B5", line, led.name,
        f"leader {led.broker} proposed broker {f} for the ISR in leader epoch {led.epoch}: {at}, the HWM was at "
        f"least {hwm}, and the leader epoch starts at {start} or later",
        "what is committed is missing where it is elected", facts={"leo": leo, "hwm": hwm, "epoch_start": start},
    )  # fmt: skip


def _epoch(context: Context, led: Leadership, wanted: Waiting, member: int, named: int) -> bool:
    """903.3. The epoch that is named is that of the member's last fetch, as far as that is known, or the first one."""
    first = _named_first(led, wanted.proposal, member)
    if first is not None:
        if log_rules.proposals_name_fetched_epochs(named=named, fetched=first):
            return True
        said = f"whom it had named with {first} when it sent the same proposal before"
        _wrongly_named(context, led, wanted.proposal, member, named, said)
        return False
    known, start = led.epochs_of.get(member, []), wanted.proposal.line.arrived - SENT_MS
    before = [epoch for time, epoch in known if time <= wanted.until]
    certain = [epoch for time, epoch in known if time <= start]
    can_be = before[len(certain) - 1 if certain else 0 :]
    if named == NO_EPOCH or named in can_be:
        return True
    if not before or (not certain and not led.is_whole):
        context.verdicts.guessed["the broker epoch of a member that was heard before"] += 1
        return True
    if log_rules.proposals_name_fetched_epochs(named=named, fetched=before[-1]):
        return True
    said = f"whose last fetch was under {before[-1]}"
    _wrongly_named(context, led, wanted.proposal, member, named, said)
    return False


def _named_first(led: Leadership, proposal: Proposal, member: int) -> int | None:
    """The epoch that a member was named with when the leader proposed the same before; None where it did not.

    A proposal that was refused for a member that may not join is over (841.3): what comes then is another one.
    """
    members = [m for m, _ in proposal.members]
    for earlier in led.proposed.get(proposal.partition_epoch, ()):
        if earlier.line.arrived >= proposal.line.arrived:
            break
        if [m for m, _ in earlier.members] == members and earlier.error != INELIGIBLE:
            return dict(earlier.members)[member]
    return None


def _wrongly_named(
    context: Context, led: Leadership, proposal: Proposal, member: int, named: int, said: str
) -> None:
    context.finding(
        statements.proposals_name_fetched_epochs, "903.3", proposal.line, led.name,
        f"leader {led.broker} named broker epoch {named} of broker {member}, {said}",
        "a life of the broker can be taken in that has less than the leader heard of",
    )  # fmt: skip
