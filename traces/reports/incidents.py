"""Incidents: violations that one event caused, with their cause and the steps to take.

One election can violate several properties: the leader was outside the ISR and the ELR, the leader's log lacks
records, and consumers see another end of the log. This module groups such findings by partition, offset of the change
and leader epoch. Findings in runs of the model have no facts, and belong to no incident.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from highwater.traces.reports import advice
from highwater.traces.reports import incident_words as words
from highwater.traces.reports.advice import AdviceStep, Holder, Replicas
from highwater.traces.reports.findings import Defect, Finding, Reported, known_defects
from highwater.traces.reports.incident_words import Group
from highwater.traces.reports.observed import FROM_ELR, Controllers, FinalState, ReplicaEnd
from highwater.traces.reports.text import AT_LEAST, EXACT

LOST, STUCK, AT_RISK, UNCLEAN, NOTICE = "lost", "stuck", "at_risk", "unclean", "notice"
SEVERITIES = (LOST, STUCK, AT_RISK, UNCLEAN, NOTICE)
"""Worst first. LOST: committed records are lost. STUCK: a partition is offline and does not recover by itself.
AT_RISK: records or availability are at risk. UNCLEAN: an unclean election that lost no committed record. NOTICE: any
other violation."""

MANY_ELECTIONS, WITHIN_MS = 4, 60_000
"""This many controller elections within this time are an incident."""
_RECORDS = frozenset(
    {
        "acknowledged_has_copies", "elr_only_under_min_isr", "elr_within_replicas", "electable_completeness",
        "enough_are_electable", "hwm_never_moves_back", "hwm_stands_under_min_isr", "hwm_waits_for_isr",
        "isr_and_elr_are_disjoint", "isr_joined_caught_up", "isr_within_replicas", "leader_in_isr",
        "one_proposal_is_under_way", "proposals_name_fetched_epochs", "recovering_leader_is_alone",
        "stale_epochs_are_refused",
    }
)  # fmt: skip
"""Properties whose violation puts committed records at risk."""


@dataclass(frozen=True)
class Incident(Reported):
    """An incident of one partition, or of the controllers (``partition`` None), with advice.

    - ``id`` does not change if the log grows. ``group`` is the id of the first incident with the same cause and
      severity.
    - ``severity`` is one of ``SEVERITIES``.
    - ``position`` and ``time`` (ms since the epoch) are those of the change that caused the incident.
    - ``cause`` explains the incident in sentences. ``holders`` has the state of the lost records on each replica.
    - ``lost`` is the number of committed records that the leader lacked, from offset ``first_lost`` on; None if none
      are known to be lost. ``standing`` says whether the number is exact or a bound.
    - ``broken`` are the violated properties.
    """

    id: str
    group: str
    severity: str
    partition: str | None
    position: dict[str, Any]
    time: int | None
    headline: str
    cause: tuple[str, ...]
    holders: tuple[Holder, ...] = ()
    steps: tuple[AdviceStep, ...] = ()
    defects: tuple[Defect, ...] = ()
    lost: int | None = None
    first_lost: int | None = None
    standing: str = EXACT
    leader_epoch: int | None = None
    broken: tuple[str, ...] = ()
    certain: bool = True
    reliable: bool = True

    @property
    def label(self) -> str:
        """The headline after its severity, with a mark if the incident is not certain or not reliable."""
        possible = "" if self.certain else "POSSIBLE "
        unsure = "" if self.reliable else " (not reliable: incomplete input)"
        return f"{possible}{words.LABELS[self.severity]}: {self.headline}{unsure}"


def incidents(
    findings: Iterable[Finding],
    controllers: Controllers,
    profile: str,
    *,
    final: Mapping[str, FinalState],
    logs: Mapping[str, Sequence[ReplicaEnd]],
    deleted: Mapping[str, tuple[int, int]],
    has_elr: bool,
    has_logs: bool,
) -> list[Incident]:
    """The incidents of an input: certain ones first, then by severity, then by time.

    ``deleted`` has metadata offset and time of the deletion of topics, by topic id.
    """
    findings = list(findings)
    made = []
    for (name, topic_id), of_partition in _by_topic(findings).items():
        now = final.get(name)
        is_other = now is not None and "" not in (topic_id, now.topic_id) and now.topic_id != topic_id
        for group in groups(name, of_partition):
            group.deleted = deleted.get(topic_id, (None, None) if is_other else None)
            group.final = None if group.deleted else now
            group.is_over = _is_over(group)
            ends = () if group.deleted else logs.get(name, ())
            group.replicas = Replicas(name, _replicas(group), tuple(ends))
            group.has_elr, group.has_logs = has_elr, has_logs
            made.append((_incident(group, profile), words.cause_key(group)))
    made += [(one, one.id) for one in _controllers(controllers, findings)]
    made.sort(key=lambda pair: _order(pair[0]))
    first: dict[tuple[str, str], str] = {}
    return [replace(one, group=first.setdefault((one.severity, key), one.id)) for one, key in made]


def _by_topic(findings: Iterable[Finding]) -> dict[tuple[str, str], list[Finding]]:
    """The findings that have facts, by partition and topic id: a topic can have the name of a deleted one.

    A finding without a topic id is about the partition's only topic, if there is only one.
    """
    found: dict[tuple[str, str], list[Finding]] = {}
    for one in findings:
        if one.partition is not None and one.facts:
            found.setdefault((one.partition, one.facts.get("topic_id", "")), []).append(one)
    for name in [name for name, topic_id in found if not topic_id]:
        others = [key for key in found if key[0] == name and key[1]]
        if len(others) == 1:
            found[others[0]] += found.pop((name, ""))
    return found


def _order(incident: Incident) -> tuple[bool, int, int, str]:
    severity = SEVERITIES.index(incident.severity)
    return not incident.certain, severity, incident.time or 0, incident.partition or ""


def _is_over(group: Group) -> bool:
    """True if every property that the change violated holds again at the end of the input."""
    broken = {f.property for f in group.findings if "offset" in f.position}
    return bool(broken) and (group.final is None or broken.isdisjoint(group.final.failing))


def _replicas(group: Group) -> tuple[int, ...]:
    """The partition's replicas in their order: at the end of the input if known, else at the incident."""
    if group.final is not None:
        return group.final.replicas
    known = group.with_fact("after")
    return () if known is None else tuple(known.facts["after"]["replicas"])


def _elects(finding: Finding) -> bool:
    is_election = finding.property in ("leader_elected_cleanly", "leader_completeness")
    return is_election or not finding.facts.keys().isdisjoint({"lost", "gone", "shown"})


def groups(partition: str, findings: Iterable[Finding]) -> list[Group]:
    """A partition's findings, grouped by incident."""
    elections: dict[int, Group] = {}
    changes: dict[int, Group] = {}
    others: dict[tuple[str, int], Group] = {}
    rest: list[Finding] = []
    for found in findings:
        if _elects(found):
            group = elections.setdefault(found.facts["leader_epoch"], Group(partition))
            group.findings.append(found)
            if "offset" in found.position:
                changes.setdefault(found.position["offset"], group)
        else:
            rest.append(found)
    for found in rest:
        if "offset" in found.position:
            group = changes.setdefault(found.position["offset"], Group(partition))
        else:
            key = (found.property, found.facts.get("broker", -1))
            group = _of_member(found, changes) or others.setdefault(key, Group(partition))
        group.findings.append(found)
    all_groups = list({id(g): g for g in (*elections.values(), *changes.values(), *others.values())}.values())
    return list(_without_preludes(all_groups, elections))


def _of_member(found: Finding, changes: dict[int, Group]) -> Group | None:
    """The group of the last change before ``found`` that left its broker, which lacks records, in the ELR.

    Returns None if ``found`` is not about an ELR member, or if no such change is known.
    """
    if found.facts.get("member_of") != "ELR":
        return None
    for offset in sorted((o for o in changes if o <= found.facts["offset"]), reverse=True):
        for change in changes[offset].findings:
            if found.facts["broker"] in change.facts.get("after", {}).get("elr", ()):
                return changes[offset]
    return None


def _without_preludes(all_groups: list[Group], elections: dict[int, Group]) -> Iterator[Group]:
    """Yield the groups, but join two groups if one event leads to the other.

    The findings about the first event become ``before`` of the election's group in two cases: a partition loses its
    last eligible replica, and an unclean election follows; or the ELR has a member that can lack records, and its
    election loses records.
    """
    for group in all_groups:
        election = _led_to(group, elections)
        if election is None:
            yield group
        else:
            election.before += group.findings


def _led_to(group: Group, elections: dict[int, Group]) -> Group | None:
    """The later election to which the first event of two led; None if there is none."""
    epoch = group.head.facts.get("leader_epoch")
    if epoch is None or group.with_fact("lost") is not None:
        return None
    if {f.property for f in group.findings} == {"somebody_is_electable"}:
        election = elections.get(epoch + 1)
        return None if election is None or election.of("leader_elected_cleanly") is None else election
    risky = words.can_lack(group)
    for later in sorted(number for number in elections if number > epoch):
        loss = elections[later].with_fact("lost")
        if loss is not None:
            is_led_to = loss.facts["leader"] in risky and loss.facts["elected_from"] == FROM_ELR
            return elections[later] if is_led_to else None
    return None


def _incident(group: Group, profile: str) -> Incident:
    severity, headline, cause, steps = _told(group)
    if group.deleted:
        cause.append(words.was_deleted(group.deleted))
        steps = [advice.nothing_left(), *(step for step in steps if step.when == advice.PREVENT)]
    head, loss = group.head, group.with_fact("lost")
    known = {} if loss is None else loss.facts
    everything = [*group.findings, *group.before]
    is_of_group = severity in (AT_RISK, NOTICE)
    return Incident(
        _id(group),
        "",
        severity,
        group.partition,
        dict(head.position),
        head.time,
        headline,
        tuple(cause),
        () if loss is None else _holders(group, loss),
        tuple(steps),
        known_defects(profile, everything),
        known.get("lost"),
        known.get("first_lost"),
        known.get("standing", EXACT),
        head.facts.get("leader_epoch"),
        tuple(dict.fromkeys(f.property for f in everything)),
        all(f.certain for f in group.findings) if is_of_group else head.certain,
        all(f.reliable for f in everything),
    )


def _id(group: Group) -> str:
    """The id of an incident: its partition, and the offset of the change in the metadata log.

    Without an offset, the id has the property, and the broker or the leader epoch.
    """
    head = group.head
    if "offset" in head.position:
        return f"{group.partition}@{head.position['offset']}"
    return f"{group.partition}/{head.property}/{head.facts.get('broker', head.facts.get('leader_epoch', ''))}"


def _holders(group: Group, loss: Finding) -> tuple[Holder, ...]:
    known = loss.facts
    leader, epoch, first, end = (known[name] for name in ("leader", "leader_epoch", "first_lost", "end_lost"))
    return advice.holders(known["had"], group.replicas, leader, epoch, first, end, words.joined_since(group))


def _told(group: Group) -> tuple[str, str, list[str], list[AdviceStep]]:
    """The severity, headline, cause and steps of an incident."""
    loss = group.with_fact("lost")
    if loss is not None:
        return LOST, words.lost(loss, group), words.loss_causes(loss, group), _after_loss(loss, group)
    election = group.of("leader_elected_cleanly", "leader_completeness")
    if election is not None:
        cause = words.election_causes(election, group)
        if "complete" in election.facts:
            done = AdviceStep(advice.NOW, "No action needed.")
            return UNCLEAN, words.lost_nothing(election, group), cause, [done]
        leader = election.facts["after"]["leader"]
        steps = [*advice.compare(group.replicas, leader, words.joined_since(group)), *_prevent(group)]
        return AT_RISK, words.may_be_lost(group), cause, steps
    if group.of("every_broker_comes_back"):
        steps = [] if group.is_over else list(advice.shut_out(group.replicas))
        return _while_open(group), words.shut_out(group), words.shut_out_causes(group), steps
    if any(f.property in _RECORDS for f in group.findings):
        steps = [] if group.is_over else list(_at_risk(group))
        now = group.final
        is_stuck = now is not None and now.is_offline and not now.waits_for and not group.is_over
        if is_stuck and words.strangers(group):
            return STUCK, words.stuck(group), words.risks(group), steps
        return _while_open(group), words.can_be_lost(group), words.risks(group), steps
    if group.of("somebody_is_electable"):
        return _not_electable(group)
    return NOTICE, words.broken(group), words.observed(group), []


def _while_open(group: Group) -> str:
    """The severity of a violation that is harmful only while it lasts."""
    return NOTICE if group.is_over else AT_RISK


def _after_loss(loss: Finding, group: Group) -> list[AdviceStep]:
    known = loss.facts
    kept = _holders(group, loss)
    leader, first, end = (known[name] for name in ("leader", "first_lost", "end_lost"))
    steps = advice.after_loss(group.replicas, kept, leader, first, end, known["standing"] == AT_LEAST)
    return [*steps, *_prevent(group)]


def _prevent(group: Group) -> Iterator[AdviceStep]:
    """The steps that prevent a repetition of the incident."""
    if (configured := words.configured(group)) is not None:
        yield advice.no_unclean_election(group.replicas.topic, configured.get("level", "topic"))
    if words.was_requested(group):
        yield advice.compare_before_request()
    if words.resized(group) is not None:
        yield advice.whole_isr_first()


def _not_electable(group: Group) -> tuple[str, str, list[str], list[AdviceStep]]:
    """The severity, headline, cause and steps if ISR and ELR are empty."""
    by_setting = words.resized(group) is not None
    after = [advice.whole_isr_first()] if by_setting else []
    cause = words.stuck_causes(group)
    now = group.final
    if now is None or not now.is_offline or now.isr or now.elr:
        return NOTICE, words.had_no_eligible(group), cause, after
    if now.last_known_elr and not now.waits_for:
        return STUCK, words.stuck(group), cause, [*advice.shut_out(group.replicas), *after]
    if now.last_known_elr:
        leader = now.last_known_elr[0]
        steps = [*advice.start_last_known_leader(group.replicas, leader), *after]
        return AT_RISK, words.waits(group, leader), cause, steps
    return STUCK, words.stuck(group), cause, [*advice.elect_best_log(group.replicas), *after]


def _at_risk(group: Group) -> Iterator[AdviceStep]:
    strangers, members, leader = words.strangers(group), words.members_that_lack(group), words.leader(group)
    strangers = [b for b in strangers if b not in group.replicas.order]
    if group.final is not None and group.final.is_offline and (strangers or members):
        if strangers:
            yield from advice.non_replica_in_elr(group.replicas, strangers, None)
        yield from advice.start_best_log(group.replicas, group.final.waits_for)
    elif strangers:
        yield from advice.non_replica_in_elr(group.replicas, strangers, leader)
    elif leader is not None and leader in members:  # it cannot fetch what it lacks
        yield from advice.compare(group.replicas, leader, words.joined_since(group))
    else:
        if in_elr := [b for b, of in members.items() if of == "ELR"]:
            yield from advice.start_elr_members(in_elr, leader)
        if in_isr := [b for b in members if b not in in_elr]:
            yield from advice.isr_members_lack(in_isr)


def _controllers(found: Controllers, findings: Iterable[Finding]) -> Iterator[Incident]:
    """The incidents of repeated controller elections, one for each series of elections.

    Within a series, successive elections are at most WITHIN_MS apart, and MANY_ELECTIONS of them are within WITHIN_MS.
    """
    series: list[list[tuple[int, int, int]]] = []
    for before, after in pairwise(found.elections):
        if after[2] - before[2] > WITHIN_MS or not series or series[-1][-1] != before:
            series.append([])
        series[-1].append(after)
    blamed = [f for f in findings if f.property == "every_broker_comes_back" and f.partition is not None]
    for elections in series:
        quick = any(
            b[2] - a[2] <= WITHIN_MS for a, b in zip(elections, elections[MANY_ELECTIONS - 1 :], strict=False)
        )
        if not quick:
            continue
        _, offset, time = elections[0]
        yield Incident(
            f"controller@{offset}", "", AT_RISK, None, {"offset": offset}, time, words.controllers_change(elections),
            tuple(words.controller_causes(found, blamed)),
            steps=tuple(advice.controller_resigns(found, [str(f.partition) for f in blamed])),
            broken=("every_broker_comes_back",) if blamed else (),
        )  # fmt: skip
