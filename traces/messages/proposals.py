"""AlterPartition: the fetches behind a leader's proposal (B5, 903.3), and the controller's answer (841, B7, B8)."""

from __future__ import annotations

from typing import Any

from highwater.invariants import statements
from highwater.invariants.replication import observed
from highwater.traces.messages.context import (
    CLOCKS_MS,
    DECIDED,
    LINES_MS,
    OWN_MS,
    PROPOSED,
    Context,
    Leadership,
)
from highwater.traces.messages.metadata_index import History
from highwater.traces.messages.request_lines import NO_EPOCH, Proposal
from highwater.traces.reports.observed import PartitionChange, PartitionState
from highwater.traces.rules import profiles
from highwater.traces.rules.decisions import decisions

# --- leaders' proposals ----------------------------------------------------------------------------------

SENT_MS = 30_000.0
"""The longest time from making a proposal to its arrival. After that time, the broker sends the proposal again."""
INELIGIBLE = 107
"""The code of INELIGIBLE_REPLICA, the error that ends a proposal."""


def _until(proposal: Proposal) -> float:
    """The latest time, by the leader's clock, of a fetch that can precede a proposal."""
    return proposal.line.arrived + CLOCKS_MS


def judge(context: Context, led: Leadership, now: float, active: float, ends: bool = False) -> None:
    """Check the leader's proposals for which all lines are read, in the order of their arrival.

    ``ends``: the log ends, so no proposal waits any longer. A proposal that cannot be decided counts as guessed.
    """
    while led.proposals and _until(led.proposals[0]) <= now:
        led.reached.append((active, led.proposals.popleft()))
    while led.reached and (ends or led.reached[0][0] + LINES_MS <= active):
        since, proposal = led.reached.popleft()
        _judge(context, led, proposal, since + LINES_MS <= active)
    if ends:
        context.verdicts.guessed[_END] += len(led.proposals)
        led.proposals.clear()


_END = "what a leader had heard where its log ends"


def _judge(context: Context, led: Leadership, proposal: Proposal, is_complete: bool) -> None:
    """Check a proposal. ``is_complete``: the lines of all fetches before it are read."""
    versions = [v.state for v in led.versions if v.state.partition_epoch == proposal.partition_epoch]
    if not versions:
        return
    known, verdicts = versions[0], context.verdicts
    members = {member for member, _ in proposal.members}
    if members == set(known.isr) and not known.is_recovering:
        guards = ("the follower is outside the ISR", "the follower is in the ISR")
        verdicts.not_explained(proposal.line, led.name, PROPOSED, guards, None, leader=led.broker)
        return
    joining = sorted(members - set(known.isr))
    late = [f for f in joining if f not in led.followers or led.followers[f].eligible > _until(proposal)]
    if late and not is_complete:
        verdicts.guessed[_END] += 1
        return
    others = [(f, epoch) for f, epoch in proposal.members if f != led.broker]
    wrong = [f for f, epoch in others if not _is_named_rightly(context, led, proposal, f, epoch)]
    if late and not led.is_whole:
        verdicts.guessed["what a leader had heard before its log begins"] += 1
    elif late:
        for f in late:
            _too_soon(context, led, proposal, f)
    elif not wrong:
        verdicts.explained[PROPOSED] += 1


def _too_soon(context: Context, led: Leadership, proposal: Proposal, f: int) -> None:
    """B5. Report that a follower was proposed although no fetch had made it eligible."""
    lagging = led.followers[f].lagging if f in led.followers else None
    leo, hwm, start = lagging or (-1, 0, led.leso)
    at = "it had not fetched in this leader epoch" if lagging is None else f"its fetches reached {leo}"
    context.finding(
        observed.isr_joined_caught_up, "B5", proposal.line, led.name,
        f"leader {led.broker} proposed broker {f} for the ISR in leader epoch {led.epoch}: {at}, the HWM was at "
        f"least {hwm}, and the leader epoch starts at {start} or later",
        "committed records are missing if it is elected", facts={"leo": leo, "hwm": hwm, "epoch_start": start},
    )  # fmt: skip


def _is_named_rightly(context: Context, led: Leadership, proposal: Proposal, member: int, named: int) -> bool:
    """903.3. True if ``named``, a member's broker epoch in a proposal, can be right; otherwise, report the proposal.

    The right broker epoch is the one in the member's last fetch. A repeated proposal must have the same broker epoch
    as when it was first sent.
    """
    fetched, when = _named_first(context, led, proposal, member), "when it sent the same proposal before"
    if fetched is None:
        known = led.followers[member].epochs if member in led.followers else []
        before = [epoch for time, epoch in known if time <= _until(proposal)]
        certain = sum(time <= proposal.line.arrived - SENT_MS for time, _ in known)
        if named == NO_EPOCH or named in before[max(0, certain - 1) :]:
            return True
        if not before or not (certain or led.is_whole):
            context.verdicts.guessed["the broker epoch of a member that was heard before"] += 1
            return True
        fetched, when = before[-1], "in its last fetch"
    if profiles.proposals_name_fetched_epochs(named=named, fetched=fetched):
        return True
    context.finding(
        statements.proposals_name_fetched_epochs, "903.3", proposal.line, led.name,
        f"leader {led.broker} named broker epoch {named} of broker {member}, which had {fetched} {when}",
        "an incarnation can join the ISR with fewer records than the leader knows of",
    )  # fmt: skip
    return False


def _named_first(context: Context, led: Leadership, proposal: Proposal, member: int) -> int | None:
    """The broker epoch of a member in the first sending of the proposal; None if this is the first sending.

    An INELIGIBLE_REPLICA error ends a proposal (841.3). After the error, a request with the same members is a new
    proposal.
    """
    first: int | None = None
    members = [m for m, _ in proposal.members]
    for earlier in context.to_controllers.proposed(led.broker, led.history, led.epoch):
        if earlier.line.arrived >= proposal.line.arrived:
            break
        if earlier.partition_epoch != proposal.partition_epoch:
            continue
        if earlier.error == INELIGIBLE:
            first = None
        elif first is None and [m for m, _ in earlier.members] == members:
            first = dict(earlier.members)[member]
    return first


# --- the controller's answers ----------------------------------------------------------------------------

MAX_SLOTS = 8
"""The most brokers in the model. A proposal for a partition with more is not checked."""
ERRORS = {
    0: "NONE", 3: "UNKNOWN_TOPIC_OR_PARTITION", 41: "NOT_CONTROLLER", 42: "INVALID_REQUEST", 74: "FENCED_LEADER_EPOCH",
    77: "STALE_BROKER_EPOCH", 95: "INVALID_UPDATE_VERSION", 96: "OPERATION_NOT_ATTEMPTED", 100: "UNKNOWN_TOPIC_ID",
    107: "INELIGIBLE_REPLICA", 108: "NEW_LEADER_ELECTED",
}  # fmt: skip
"""The errors that the model's controller returns, by Kafka's codes."""


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
    possible: list[tuple[tuple[str, ...], Any]] = []
    for position, version in context.index.decisions(history, line.arrived - OWN_MS, line.answered + OWN_MS):
        if proposal.error == 0 and version.state.partition_epoch > proposal.partition_epoch:
            continue  # a change that this proposal made
        refused_by, answer = _answer(context, proposal, slots, position, version)
        if answer == recorded:
            verdicts.explained[DECIDED] += 1
            return
        possible.append((refused_by, answer))
    answers = {answer[0] for _, answer in possible}
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
    refused_by, answer = possible[-1] if possible else ((), ("no such partition then",))
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


def in_flight(context: Context) -> None:
    """B7, B8. Report each proposal that arrives while its leader has another one for the partition in flight."""
    last: dict[tuple[int, int], Proposal] = {}
    for history, proposal in context.to_controllers.proposals:
        key = proposal.broker, history.number
        before, last[key] = last.get(key), proposal
        if before is None or before.broker_epoch != proposal.broker_epoch:
            continue
        under_way = 1 + (proposal.line.arrived < before.line.answered - OWN_MS)
        if not profiles.one_proposal_is_under_way(under_way=under_way):
            # If the connection broke, the leader does not know that its first request arrived.
            context.finding(
                statements.one_proposal_is_under_way, "B7, B8", proposal.line, history.name,
                f"leader {proposal.broker} sent an AlterPartition while one was under way "
                f"(line {before.line.line})",
                "the HWM may wait for the wrong ISR",
                certain=proposal.line.connection == before.line.connection,
            )  # fmt: skip
