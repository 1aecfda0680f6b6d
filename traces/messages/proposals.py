"""AlterPartition: the fetches behind a proposal (B5, 841.1, 903), and the controller's answer (841, B7, B8)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from highwater.invariants import statements
from highwater.invariants.replication import observed
from highwater.traces.messages.context import CLOCKS_MS, DECIDED, OWN_MS, PROPOSED, Context
from highwater.traces.messages.leaders import LINES_MS, MAX_SLOTS, Leadership, Stage, acting
from highwater.traces.messages.metadata_index import History
from highwater.traces.messages.request_lines import NO_EPOCH, Key, Proposal
from highwater.traces.reports.observed import PartitionChange, PartitionState
from highwater.traces.rules import profiles
from highwater.traces.rules.decisions import decisions

# --- expansions ------------------------------------------------------------------------------------------

SENT_MS = 30_000.0
"""The longest time from making a proposal to its arrival. After that time, the broker sends the proposal again."""
INELIGIBLE = 107
"""The code of INELIGIBLE_REPLICA, the error that ends a proposal."""


@dataclass(slots=True)
class Waiting:
    """A proposal that is checked once the lines of all fetches before it are read.

    ``joining`` are the new members; ``fits`` are the new members with a fetch that makes them eligible.
    """

    proposal: Proposal
    stage: Stage
    """The first stage with the partition epoch of the proposal."""
    joining: frozenset[int]
    until: float
    """The latest time, by the leader's clock, of a fetch that can precede the proposal."""
    fits: set[int] = field(default_factory=set)
    passed: float | None = None
    """How long the leader had been active (``Leadership.active``) when its log passed ``until``, in ms; None before."""
    late: dict[int, float] = field(default_factory=dict)
    """By new member: how many ms after ``until`` its first sufficient fetch came, if none came in time."""
    best: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """By new member: the offset of its last fetch up to ``until``.

    Two lower bounds at this fetch follow it: of the HWM, and of the leader epoch's start offset."""


def waiting(led: Leadership, proposals: list[Proposal]) -> list[Waiting]:
    """A ``Waiting`` for each of the leader's proposals whose partition epoch is known from a stage."""
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
    """The new members for whose fetches a pending proposal still waits."""
    return frozenset(f for w in pending for f in w.joining if f not in w.fits and f not in w.late)


def noted(context: Context, led: Leadership, pending: list[Waiting], f: int, taken: float) -> None:
    """Record for each pending proposal whether the last fetch of ``f``, read at ``taken``, makes ``f`` eligible."""
    for wanted in pending:
        if f not in wanted.joining or f in wanted.fits or f in wanted.late:
            continue
        heard, slot = led.heard[f], led.slots.get(f)
        if slot is None:
            continue
        leading, offsets = led.ranked(wanted.stage, {f: heard.offset}, led.least(), (led.leso,))
        known = heard.epoch < 0 or context.index.registered(f, heard.epoch) <= wanted.until
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
    """Check the pending proposals for which all lines are read, in the order of their arrival; return the others.

    ``ends``: the log ends, so no proposal waits any longer. A proposal that cannot be decided counts as guessed.
    """
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
    ) and not wanted.stage.version.state.is_recovering:
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
    """B5. Report that a follower was proposed although no fetch had made it eligible."""
    line = wanted.proposal.line
    leo, hwm, start = wanted.best.get(f, (-1, led.least(), led.leso))
    if profiles.isr_joined_caught_up(leo=leo, hwm=hwm, epoch_start=start):
        guards = ("the follower is eligible",)
        context.verdicts.not_explained(line, led.name, "propose_expand", guards, None, leader=led.broker, f=f)
        return
    at = f"its fetches reached {leo}" if f in wanted.best else "it had not fetched in this leader epoch"
    context.finding(
        observed.isr_joined_caught_up, "B5", line, led.name,
        f"leader {led.broker} proposed broker {f} for the ISR in leader epoch {led.epoch}: {at}, the HWM was at "
        f"least {hwm}, and the leader epoch starts at {start} or later",
        "committed records are missing if it is elected", facts={"leo": leo, "hwm": hwm, "epoch_start": start},
    )  # fmt: skip


def _epoch(context: Context, led: Leadership, wanted: Waiting, member: int, named: int) -> bool:
    """903.3. True if ``named``, a member's broker epoch in a proposal, can be right; otherwise, report the proposal.

    The right broker epoch is the one in the member's last fetch. A repeated proposal must have the same broker epoch
    as when it was first sent.
    """
    first = _named_first(led, wanted.proposal, member)
    if first is not None:
        if profiles.proposals_name_fetched_epochs(named=named, fetched=first):
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
    if profiles.proposals_name_fetched_epochs(named=named, fetched=before[-1]):
        return True
    said = f"whose last fetch was under {before[-1]}"
    _wrongly_named(context, led, wanted.proposal, member, named, said)
    return False


def _named_first(led: Leadership, proposal: Proposal, member: int) -> int | None:
    """The broker epoch of a member in the first sending of the proposal; None if this is the first sending.

    An INELIGIBLE_REPLICA error ends a proposal (841.3). After the error, a request with the same members is a new
    proposal.
    """
    first: int | None = None
    members = [m for m, _ in proposal.members]
    for earlier in led.proposed.get(proposal.partition_epoch, ()):
        if earlier.line.arrived >= proposal.line.arrived:
            break
        if earlier.error == INELIGIBLE:
            first = None
        elif first is None and [m for m, _ in earlier.members] == members:
            first = dict(earlier.members)[member]
    return first


def _wrongly_named(
    context: Context, led: Leadership, proposal: Proposal, member: int, named: int, said: str
) -> None:
    context.finding(
        statements.proposals_name_fetched_epochs, "903.3", proposal.line, led.name,
        f"leader {led.broker} named broker epoch {named} of broker {member}, {said}",
        "an incarnation can join the ISR with fewer records than the leader knows of",
    )  # fmt: skip


# --- proposals -------------------------------------------------------------------------------------------

ERRORS = {
    0: "NONE", 3: "UNKNOWN_TOPIC_OR_PARTITION", 41: "NOT_CONTROLLER", 42: "INVALID_REQUEST", 74: "FENCED_LEADER_EPOCH",
    77: "STALE_BROKER_EPOCH", 95: "INVALID_UPDATE_VERSION", 96: "OPERATION_NOT_ATTEMPTED", 100: "UNKNOWN_TOPIC_ID",
    107: "INELIGIBLE_REPLICA", 108: "NEW_LEADER_ELECTED",
}  # fmt: skip
"""The errors that the model's controller returns, by Kafka's codes."""
MAX_LAST = 100_000
"""The most pairs of leader and partition whose last proposal is stored."""
PROPOSED_CHANGE = "alter_partition"
"""The controller's action that applies a proposal."""


def decided(context: Context, history: History, proposal: Proposal) -> None:
    """Check the controller's answer (841.2, 903.4).

    The model must give the same answer in one of the states in which the controller can have decided.
    """
    line, verdicts = proposal.line, context.verdicts
    if proposal.error not in ERRORS:
        verdicts.outside[f"AlterPartition answered with error {proposal.error}"] += 1
        return
    slots = _slots(context, history, proposal, line.arrived - OWN_MS, line.answered + OWN_MS)
    if slots is None:
        verdicts.outside["AlterPartition of a partition with too many brokers"] += 1
        return
    recorded = _recorded(proposal)
    told: list[tuple[tuple[str, ...], Any]] = []
    for position, version in context.index.decisions(history, line.arrived - OWN_MS, line.answered + OWN_MS):
        if proposal.error == 0 and version.state.partition_epoch > proposal.partition_epoch:
            continue  # a change that this proposal made
        refused_by, answer = _answer(context, proposal, slots, position, version)
        if answer == recorded:
            verdicts.explained[DECIDED] += 1
            return
        told.append((refused_by, answer))
    answers = {answer[0] for _, answer in told}
    if proposal.error == 0 and answers == {"STALE_BROKER_EPOCH"}:
        sent, latest = proposal.broker_epoch, context.index.latest_epoch(proposal.broker)
        text = (
            f"the controller accepted an AlterPartition of broker {proposal.broker} under broker epoch {sent}"
        )
        if _stale(context, history, proposal, text, sent, latest):
            return
    for member, sent in proposal.members:
        latest = context.index.latest_epoch(member, line.arrived)
        if proposal.error == 0 and answers == {"INELIGIBLE_REPLICA"} and sent != NO_EPOCH:
            text = f"the controller accepted broker {member} with broker epoch {sent} although {latest} was registered"
            if _stale(context, history, proposal, text, sent, latest):
                return
    refused_by, answer = told[-1] if told else ((), ("no such partition then",))
    verdicts.not_explained(
        line, history.name, DECIDED, refused_by, {"answer": (answer, recorded)}, b=proposal.broker
    )  # fmt: skip


def _stale(context: Context, history: History, proposal: Proposal, text: str, sent: int, known: int) -> bool:
    """903.4. Report ``text`` and return True if ``sent`` is less than ``known``; else return False.

    ``sent`` is the broker epoch of the sender or of a member in an accepted request, ``known`` the registered one.
    """
    if profiles.stale_epochs_are_refused(sent=sent, known=known):
        return False
    context.finding(
        statements.stale_epochs_are_refused, "903.4", proposal.line, history.name, text,
        "a broker that registered again may have lost records, and can be elected",
    )  # fmt: skip
    return True


def _recorded(proposal: Proposal) -> tuple[Any, ...]:
    if proposal.error:
        return (ERRORS[proposal.error],)
    return (
        "NONE", proposal.answer_leader, proposal.answer_leader_epoch, tuple(sorted(proposal.answer_isr)),
        proposal.answer_partition_epoch,
    )  # fmt: skip


def _slots(
    context: Context, history: History, proposal: Proposal, start: float, end: float
) -> dict[int, int] | None:
    states = [v.state for v in history.around(start, end)]
    members = {proposal.broker, *(m for m, _ in proposal.members)}
    for s in states:
        members.update(s.replicas, s.isr, s.elr, s.last_known_elr, () if s.leader is None else (s.leader,))
    found = {broker: i for i, broker in enumerate(sorted(members))}
    return found if len(found) <= MAX_SLOTS else None


def _answer(
    context: Context, proposal: Proposal, slots: dict[int, int], position: int, version: PartitionChange
) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """The guards that refuse a proposal, and the model's answer, in the state after the record at ``position``.

    ``version`` is the partition in this state. ``slots`` maps each broker to its slot in the model.
    """
    model = decisions(_rounded(len(slots)), context.rules)
    members = [{"broker": slots[m], "epoch": None if e == NO_EPOCH else e} for m, e in proposal.members]
    found = model.alter_partition(
        partition=_plain(version.state, slots, model),
        registrations=_registrations(context, slots, position, _rounded(len(slots))),
        min_isr=version.min_isr or 1,
        unclean_election=bool(version.unclean_election),
        topic_known=True,
        partition_known=True,
        request={
            "version": proposal.version,
            "broker": slots[proposal.broker],
            "broker_epoch": max(0, proposal.broker_epoch),
            "leader_epoch": max(0, proposal.leader_epoch),
            "partition_epoch": max(0, proposal.partition_epoch),
            "new_isr": members[: model.t.proposed_isr.maximum],
            "leader_recovery_state": "RECOVERING" if proposal.recovering else "RECOVERED",
        },
    )
    verdict = found["checks"]
    error = verdict.answer if verdict.refused_by else found["error"]
    if error != "NONE":
        return verdict.refused_by, (error,)
    after, nodes = found["after"], {slot: broker for broker, slot in slots.items()}
    leader = -1 if after["leader"] is None else nodes[after["leader"]]
    isr = tuple(sorted(nodes[slot] for slot in after["isr"]))
    return (), ("NONE", leader, after["leader_epoch"], isr, after["partition_epoch"])


def _rounded(count: int) -> int:
    return 4 if count <= 4 else MAX_SLOTS


def _plain(state: PartitionState, slots: dict[int, int], model: Any) -> dict[str, Any]:
    plain = {
        "replicas": [slots[b] for b in state.replicas],
        "adding": [slots[b] for b in state.adding if b in slots],
        "removing": [slots[b] for b in state.removing if b in slots],
        "isr": [slots[b] for b in state.isr],
        "elr": [slots[b] for b in state.elr],
        "last_known_elr": [],
        "last_known_leader": slots[state.last_known_elr[0]] if state.last_known_elr else None,
        "leader": None if state.leader is None else slots[state.leader],
        "leader_epoch": state.leader_epoch,
        "partition_epoch": state.partition_epoch,
        "leader_recovery_state": state.leader_recovery_state,
        "offline": [],
    }
    return {name: plain[name] for name in model.t.partition.fields}


def _registrations(
    context: Context, slots: dict[int, int], position: int, count: int
) -> list[dict[str, Any]]:
    found = [
        {"registered": False, "epoch": 0, "fenced": True, "in_controlled_shutdown": False}
        for _ in range(count)
    ]
    for broker, slot in slots.items():
        known = context.index.registration(broker, position)
        if known is not None:
            found[slot] = {
                "registered": known.registered, "epoch": max(0, known.epoch), "fenced": known.fenced,
                "in_controlled_shutdown": known.in_controlled_shutdown,
            }  # fmt: skip
    return found


def missing(context: Context, first: float, last: float) -> None:
    """Count, as guessed, the ISR changes between two times whose AlterPartition is in no log.

    Only topics with proposals in the logs are checked.
    """
    for topic in context.asked.topics():
        for history in context.index.partitions(topic):
            for version in history.versions:
                is_asked_for = version.cause == PROPOSED_CHANGE and first <= version.time <= last
                if is_asked_for and not context.asked.made(history.number, version):
                    context.verdicts.guessed["an AlterPartition whose line is missing"] += 1


def in_flight(context: Context) -> None:
    """B7, B8. Report each proposal that arrives while its leader has another one for the partition in flight.

    Nothing is reported if the profile allows a second proposal in flight.
    """
    if acting(3, context.report.profile).may_send_another(True):
        return
    last: dict[tuple[int, Key], Proposal] = {}
    for proposal in context.asked.proposals():
        key = (proposal.broker, proposal.key)
        before = last.pop(key, None)
        last[key] = proposal
        if len(last) > MAX_LAST:
            del last[next(iter(last))]
        if before is None or before.broker_epoch != proposal.broker_epoch:
            continue
        under_way = 1 + (proposal.line.arrived < before.line.answered - OWN_MS)
        if not profiles.one_proposal_is_under_way(under_way=under_way):
            history = context.index.history(*proposal.key)
            # If the connection broke, the leader does not know that its first request arrived.
            context.finding(
                statements.one_proposal_is_under_way, "B7, B8", proposal.line, "" if history is None else history.name,
                f"leader {proposal.broker} sent an AlterPartition while one was under way "
                f"(line {before.line.line})",
                "the HWM may wait for the wrong ISR",
                certain=proposal.line.connection == before.line.connection,
            )  # fmt: skip
