"""AlterPartition (B5, B7, B8, 841, 903): what the controller answered, and what the leader had when it proposed."""

from __future__ import annotations

from typing import Any

from highwater.invariants import statements
from highwater.traces.reports.observed import PartitionState
from highwater.traces.requests.acting import MAX_SLOTS, acting
from highwater.traces.requests.context import Context
from highwater.traces.requests.forms import NO_EPOCH
from highwater.traces.requests.history import History, Version
from highwater.traces.requests.messages import Key, Proposal
from highwater.traces.requests.stages import OWN_MS
from highwater.traces.requests.verdicts import DECIDED
from highwater.traces.rules import log_rules
from highwater.traces.rules.decisions import decisions

ERRORS = {
    0: "NONE", 3: "UNKNOWN_TOPIC_OR_PARTITION", 41: "NOT_CONTROLLER", 42: "INVALID_REQUEST", 74: "FENCED_LEADER_EPOCH",
    77: "STALE_BROKER_EPOCH", 95: "INVALID_UPDATE_VERSION", 96: "OPERATION_NOT_ATTEMPTED", 100: "UNKNOWN_TOPIC_ID",
    107: "INELIGIBLE_REPLICA", 108: "NEW_LEADER_ELECTED",
}  # fmt: skip
"""Kafka's error codes that the model's controller answers."""
MAX_LAST = 100_000
"""Of so many pairs of a leader and a partition the last proposal is kept."""
PROPOSED_CHANGE = "alter_partition"
"""The controller's action that a proposal leads to."""


def decided(context: Context, history: History, proposal: Proposal) -> None:
    """The controller's answer is the model's to this request, by what it had when it decided (841.2, 903.4)."""
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
    for position, version in context.spine.decisions(history, line.arrived - OWN_MS, line.answered + OWN_MS):
        if proposal.error == 0 and version.state.partition_epoch > proposal.partition_epoch:
            continue  # what it made itself
        refused_by, answer = _answer(context, proposal, slots, position, version)
        if answer == recorded:
            verdicts.explained[DECIDED] += 1
            return
        told.append((refused_by, answer))
    answers = {answer[0] for _, answer in told}
    if proposal.error == 0 and answers == {"STALE_BROKER_EPOCH"}:
        sent, latest = proposal.broker_epoch, context.spine.latest_epoch(proposal.broker)
        text = f"the controller carried out a proposal of broker {proposal.broker} under broker epoch {sent}"
        if _stale(context, history, proposal, text, sent, latest):
            return
    for member, sent in proposal.members:
        latest = context.spine.latest_epoch(member, line.arrived)
        if proposal.error == 0 and answers == {"INELIGIBLE_REPLICA"} and sent != NO_EPOCH:
            text = f"the controller took in broker {member} under broker epoch {sent}, when {latest} was registered"
            if _stale(context, history, proposal, text, sent, latest):
                return
    refused_by, answer = told[-1] if told else ((), ("no such partition then",))
    verdicts.not_explained(
        line, history.name, DECIDED, refused_by, {"answer": (answer, recorded)}, b=proposal.broker
    )  # fmt: skip


def _stale(context: Context, history: History, proposal: Proposal, text: str, sent: int, known: int) -> bool:
    """903.4. Tell that what was sent under an epoch counted, where a later one was known; whether that is so."""
    if log_rules.stale_epochs_are_refused(sent=sent, known=known):
        return False
    context.finding(
        statements.stale_epochs_are_refused, "903.4", proposal.line, history.name, text,
        "who registered anew may lack what it had, and can be elected",
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
    context: Context, proposal: Proposal, slots: dict[int, int], position: int, version: Version
) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """What the model's controller answers in the state at an offset of its log, and who refuses."""
    model = decisions(_rounded(len(slots)), context.rules)
    members = [{"broker": slots[m], "epoch": None if e == NO_EPOCH else e} for m, e in proposal.members]
    found = model.alter_partition(
        partition=_plain(version.state, slots, model),
        registrations=_registrations(context, slots, position, _rounded(len(slots))),
        min_isr=version.min_isr or 1,
        unclean_election=bool(version.unclean_election),
        topic_known=True,
        partition_known=True,
        reorders=False,
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
    """A partition as the model's types have it."""
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
        known = context.spine.registration(broker, position)
        if known is not None:
            found[slot] = {
                "registered": known.registered, "epoch": max(0, known.epoch), "fenced": known.fenced,
                "in_controlled_shutdown": known.in_controlled_shutdown,
            }  # fmt: skip
    return found


def missing(context: Context, first: float, last: float) -> None:
    """Changes of the metadata log between two times, of the first and the last proposal, of which no line tells."""
    for topic in context.asked.topics():
        for history in context.spine.partitions(topic):
            for version in history.versions():
                is_asked_for = version.cause == PROPOSED_CHANGE and first <= version.time <= last
                if is_asked_for and not context.asked.made(history.number, version):
                    context.verdicts.guessed["an AlterPartition whose line is missing"] += 1


def in_flight(context: Context) -> None:
    """B7, B8. No proposal arrives while one of the same leader for the same partition is under way."""
    if acting(3, context.profile).may_send_another(True):
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
        if not log_rules.one_proposal_is_under_way(under_way=under_way):
            history = context.spine.history(*proposal.key)
            # Where its connection broke the leader does not know that the first one arrived.
            context.finding(
                statements.one_proposal_is_under_way, "B7, B8", proposal.line, "" if history is None else history.name,
                f"leader {proposal.broker} sent an AlterPartition while one was under way "
                f"(line {before.line.line})",
                "which ISR its HWM has to wait for",
                certain=proposal.line.connection == before.line.connection,
            )  # fmt: skip
