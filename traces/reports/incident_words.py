"""Text about an incident, from the facts of its findings: a headline, and the cause in short sentences.

In these texts, a "metadata offset" is in the metadata log. Any other offset is in the partition's log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from highwater.traces.reports.advice import Replicas
from highwater.traces.reports.findings import Finding
from highwater.traces.reports.observed import (
    FROM_ELR,
    FROM_ISR,
    MIN_ISR,
    UNCLEAN,
    Controllers,
    FinalState,
    SettingChange,
)
from highwater.traces.reports.text import BOUNDS, brokers, count, moment, offsets, span

LABELS = {
    "lost": "DATA LOSS",
    "stuck": "OFFLINE",
    "at_risk": "AT RISK",
    "unclean": "UNCLEAN ELECTION",
    "notice": "NOTICE",
}
"""The prefix of a headline, by severity."""
_ON_REQUEST = "elect_leader"


@dataclass
class Group:
    """The findings of one incident, and facts about its partition.

    - ``before``: findings of an earlier change that led to this one: the partition had no eligible leader, or the ELR
      had a member that could lack records.
    - ``replicas``: the partition's replicas, with the ends of their logs.
    - ``final``: the partition at the end of the input, if it is known.
    - ``deleted``: metadata offset and time at which the topic was deleted, each None if unknown; None if it was not.
    - ``is_over``: True if every property that the change violated holds again at the end of the input.
    - ``has_elr``: True if the rules in force have the ELR. ``has_logs``: True if the input has brokers' logs.
    """

    partition: str
    findings: list[Finding] = field(default_factory=list)
    before: list[Finding] = field(default_factory=list)
    replicas: Replicas = field(default_factory=lambda: Replicas("", ()))
    final: FinalState | None = None
    deleted: tuple[int, int] | tuple[None, None] | None = None
    is_over: bool = False
    has_elr: bool = True
    has_logs: bool = False

    def of(self, *properties: str) -> Finding | None:
        """The first finding of one of these properties."""
        return next((f for f in self.findings if f.property in properties), None)

    def with_fact(self, name: str) -> Finding | None:
        """The first finding that has a fact of this name."""
        return next((f for f in self.findings if name in f.facts), None)

    @property
    def head(self) -> Finding:
        """The finding that gives the incident its place and time: the first from the metadata log, else the first."""
        return next((f for f in self.findings if "offset" in f.position), self.findings[0])


# --- headlines ------------------------------------------------------------------------------------------------------


def lost(loss: Finding, group: Group) -> str:
    """The headline if committed records are gone from the leader's log."""
    known = loss.facts
    number = BOUNDS[known["standing"]] + count(known["lost"], "committed record")
    where = offsets(known["first_lost"], known["end_lost"])
    return f"{group.partition} lost {number} (offset{'s' * (known['lost'] > 1)} {where}) at {_when(group)}"


def lost_nothing(election: Finding, group: Group) -> str:
    """The headline about an unclean election of a leader that had every committed record."""
    leader = election.facts["after"]["leader"]
    return (
        f"{group.partition} elected broker {leader} uncleanly at {_when(group)} and lost no committed records"
    )


def may_be_lost(group: Group) -> str:
    """The headline about an unclean election that may have lost records."""
    return f"{group.partition} may have lost committed records by an unclean election at {_when(group)}"


def can_be_lost(group: Group) -> str:
    """The headline about a violation that puts committed records at risk, or did so while it lasted."""
    if group.is_over:
        return f"{group.partition} could lose committed records from {_when(group)} (resolved)"
    return f"{group.partition} can lose committed records (since {_when(group)})"


def shut_out(group: Group) -> str:
    """The headline if the registration of a replica makes the controller fail."""
    if group.is_over:
        return f"{group.partition} could make the controller fail from {_when(group)} (resolved)"
    return f"{group.partition} makes the controller fail when a replica registers (since {_when(group)})"


def had_no_eligible(group: Group) -> str:
    """The headline if the partition had no eligible leader, but has recovered."""
    return f"{group.partition} had no eligible leader from {_when(group)} (resolved)"


def waits(group: Group, leader: int) -> str:
    """The headline if the partition is offline until a certain broker returns."""
    return f"{group.partition} has been offline since {_when(group)} and waits for broker {leader}"


def stuck(group: Group) -> str:
    """The headline if the partition is offline, and no broker can bring it back by returning."""
    times = [group.head.time, None if group.final is None else group.final.leaderless_since]
    since = max((time for time in times if time is not None), default=None)
    return f"{group.partition} has had no eligible leader since {moment(since)}"


def broken(group: Group) -> str:
    """The headline about a violation that does not concern committed records."""
    return f"{group.partition} violates {group.head.property} at {_when(group)}"


def controllers_change(elections: Sequence[tuple[int, int, int]]) -> str:
    """The headline for repeated controller elections (see ``Controllers.elections``)."""
    first, last = elections[0][2], elections[-1][2]
    return f"the active controller changed {len(elections)} times in {span(last - first)}, starting at {moment(first)}"


# --- causes ---------------------------------------------------------------------------------------------------------


def loss_causes(loss: Finding, group: Group) -> list[str]:
    """Sentences about the cause of a loss of committed records."""
    known = loss.facts
    election = group.of("leader_elected_cleanly", "leader_completeness")
    sentences = [
        _of_loss(known, group)
        if election is None or "after" not in election.facts
        else _elected(election, group)
    ]
    if known.get("hwm") is not None:
        sentences.append(
            f"Its log ended at offset {known['leo']}; the high watermark had reached {known['hwm']}."
        )
    else:
        sentences.append(
            f"Its log ended at offset {known['leo']}; the former ISR had records up to {known['end_lost']}."
        )
    if known["leo"] > known["first_lost"]:
        sentences.append(f"Its log diverges from the committed records at offset {known['first_lost']}.")
    sentences += _circumstances(group)
    if shown := group.with_fact("shown"):
        before, after = shown.facts["shown_before"], shown.facts["shown"]
        sentences.append(
            f"Consumers saw the log end at offset {before}, and later at {after}."
            if after < before
            else f"Consumers that had read up to offset {before} now see different records below it."
        )
    return sentences


def election_causes(election: Finding, group: Group) -> list[str]:
    """Sentences about the cause of an unclean election."""
    sentences = [_elected(election, group)]
    complete = election.facts.get("complete")
    if complete is not None:
        sentences.append(
            f"Its log ended at offset {complete['leo']}; the high watermark had reached {complete['hwm']}."
        )
    elif group.has_logs:
        sentences.append("The brokers' logs in the input do not show whether records were lost.")
    else:
        sentences.append(
            "The metadata log does not show whether records were lost. Add the brokers' logs to the input."
        )
    return sentences + _circumstances(group)


def stuck_causes(group: Group) -> list[str]:
    """Sentences about why a partition has no eligible leader."""
    head = group.head
    before, after, cause = (head.facts[name] for name in ("before", "after", "cause"))
    had = (*before["isr"], *before["elr"])
    at = _metadata(head)
    if cause == "change_min_isr":
        emptied = f"the ELR ({brokers(before['elr'])})" if before["elr"] else "the last known leader"
        sentences = [
            f"{_min_isr_change(head.facts)}.",
            f"The controller then cleared {emptied} of the leaderless partition.",
        ]
    elif cause == "register" and had:
        sentences = [
            f"A broker registered after an unclean shutdown, so the controller removed {brokers(had)} "
            f"from ISR and ELR{at}."
        ]
    elif had:
        sentences = [f"{_capital(brokers(had))} left ISR and ELR{at}."]
    else:
        sentences = [f"The ISR and the ELR are empty{at}."]
    known = after["last_known_elr"]
    sentences.append(
        f"The last known leader is {brokers(known)}." if known else "No last known leader is recorded."
    )
    return sentences + ([] if cause == "change_min_isr" else _after_setting(group))


def was_deleted(deleted: tuple[int, int] | tuple[None, None]) -> str:
    """A sentence about the deletion of the topic, at a metadata offset and a time."""
    offset, time = deleted
    when = "later" if offset is None else f"at {moment(time)} (metadata offset {offset})"
    return f"The topic was deleted {when}."


def risks(group: Group) -> list[str]:
    """Sentences about why committed records can be lost."""
    sentences = []
    standing = group.of("elr_only_under_min_isr")
    if gone := strangers(group):
        at, many, names = _metadata(group.head), len(gone) > 1, brokers(gone)
        if _was_reassigned(group):
            stay = "they stay" if many else "it stays"
            sentences.append(f"A reassignment removed {names} from the replicas, but {stay} in the ELR{at}.")
        else:
            are = "are in the ELR but are not replicas" if many else "is in the ELR but is not a replica"
            sentences.append(f"{_capital(names)} {are}{at}.")
        sentences.append(
            "A broker that is not a replica deletes its log. If it becomes a replica again, it can be elected without "
            "the records."
        )
    elif standing is not None and standing.facts.get("min_isr") is not None:
        after, min_isr = standing.facts["after"], standing.facts["min_isr"]
        stays = "stays" if len(after["elr"]) == 1 else "stay"
        sentences.append(
            f"{_capital(brokers(after['elr']))} {stays} in the ELR although the ISR {after['isr']} has "
            f"min.insync.replicas ({min_isr}) members{_metadata(group.head)}."
        )
        sentences.append("The high watermark no longer waits for ELR members, but they can still be elected.")
    few = group.of("enough_are_electable")
    if few is not None and few.facts.get("min_isr") is not None:
        sentences.append(
            f"ISR and ELR together have fewer members than min.insync.replicas ({few.facts['min_isr']})."
        )
    for facts in (f.facts for f in group.findings if "member_of" in f.facts):
        sentences.append(
            f"The log of broker {facts['broker']}, in the {facts['member_of']}, ended at offset {facts['leo']}, below "
            f"the high watermark {facts['hwm']}."
        )
    return [*(sentences or observed(group)), *_after_setting(group)]


def shut_out_causes(group: Group) -> list[str]:
    """Sentences about why a registration makes the controller fail."""
    after = group.head.facts["after"]
    if not after["last_known_elr"]:
        return observed(group)
    return [
        f"{_capital(brokers(after['last_known_elr']))}, the last known leader, is no longer a replica"
        f"{_metadata(group.head)}.",
        "Without an ISR or ELR member, the registration of a replica throws an exception, and the controller resigns.",
    ]


def observed(group: Group) -> list[str]:
    """The summary of the group's first finding, as a list of at most one sentence."""
    return [sentence for f in group.findings[:1] for sentence in _sentences(f.summary)]


def controller_causes(found: Controllers, blamed: Sequence[Finding]) -> Iterator[str]:
    """Sentences about the events that make controllers resign, if the input shows them."""
    for what, number in sorted(found.failures.items(), key=lambda item: -item[1])[:2]:
        event, _, exception = what.partition(": ")
        times = count(number, "time")
        yield f"The controller resigned {times}: event {event} failed with {exception} (controller.log)."
    for broker, number in sorted(found.refused.items(), key=lambda item: -item[1])[:2]:
        yield f"The controller refused {count(number, 'registration')} of broker {broker}."
    for finding in blamed[:2]:
        yield (
            f"{finding.partition} makes a controller fail at the registration of a replica"
            f"{_metadata(finding)}."
        )
    if not found.failures and not blamed:
        yield "The input does not show why. Read controller.log on each controller."


# --- facts for the advice -------------------------------------------------------------------------------------------


def configured(group: Group) -> Mapping[str, Any] | None:
    """The setting that enabled unclean election: {} if its level is unknown, None if no setting did."""
    found = next((f for f in group.findings if f.facts.get("unclean_election")), None)
    return None if found is None else found.facts["settings"].get(UNCLEAN) or {}


def was_requested(group: Group) -> bool:
    """True if an operator or a tool requested the election."""
    return any(f.facts.get("cause") == _ON_REQUEST for f in group.findings)


def resized(group: Group) -> Finding | None:
    """The first finding that involves a change of min.insync.replicas; None if there is none.

    Either the change caused the finding, or it came earlier, and the ISR has not reached the former min ISR since.
    """
    everything = (*group.before, *group.findings)
    return next(
        (f for f in everything if f.facts.get("resized") or f.facts.get("cause") == "change_min_isr"), None
    )


def strangers(group: Group) -> list[int]:
    """The members of the ELR that are not replicas."""
    found = group.of("elr_within_replicas")
    if found is None or "after" not in found.facts:
        return []
    after = found.facts["after"]
    return [b for b in after["elr"] if b not in after["replicas"]]


def members_that_lack(group: Group) -> dict[int, str]:
    """The members of ISR or ELR that can be elected although they may lack committed records, each with its set.

    A former ELR member that is in the ISR at the end of the input has every committed record.
    """
    lacking, now = _members_that_lack(group), group.final
    if now is None:
        return lacking
    left = {"ISR": set(now.isr), "ELR": set(now.elr) - set(now.isr)}
    return {b: of for b, of in lacking.items() if b in left[of]}


def _members_that_lack(group: Group) -> dict[int, str]:
    """The members that can be elected, and may lack records, when the incident began: each with its set."""
    lacking = {f.facts["broker"]: f.facts["member_of"] for f in group.findings if "member_of" in f.facts}
    found = group.of("elr_only_under_min_isr")
    return lacking if found is None else lacking | dict.fromkeys(found.facts["after"]["elr"], "ELR")


def can_lack(group: Group) -> set[int]:
    """The brokers whose election after the incident can lose committed records."""
    return {*strangers(group), *_members_that_lack(group)}


def joined_since(group: Group) -> list[int]:
    """The replicas that have joined the ISR of the incident's leader, or of a later leader with its log."""
    epoch, now = group.head.facts.get("leader_epoch"), group.final
    if epoch is None or now is None or now.followers is None or now.followers.leader_epoch > epoch:
        return []
    return [b for b in now.replicas if b in now.followers.brokers]


def leader(group: Group) -> int | None:
    """The leader at the end of the input if known, else the leader after the incident's change."""
    if group.final is not None:
        return group.final.leader
    found = group.with_fact("after")
    return None if found is None else found.facts["after"]["leader"]


def cause_key(group: Group) -> str:
    """A key shared by incidents with equal cause, setting change, time (to the second), leader and properties."""
    head = group.head
    after = head.facts.get("after", {})
    setting = (head.facts.get("resized") or {}).get("setting", {}).get("offset")
    names = sorted({f.property for f in group.findings})
    second = None if head.time is None else head.time // 1000
    return repr((head.facts.get("cause"), setting, second, after.get("leader"), names))


# --- parts of sentences ---------------------------------------------------------------------------------------------


def _of_loss(known: Mapping[str, Any], group: Group) -> str:
    """A sentence about the leader that lacks the lost records, if no finding shows its election."""
    leader, epoch = known["leader"], known["leader_epoch"]
    if known["restarted"]:
        return f"Leader {leader} restarted in leader epoch {epoch} with a shorter log."
    sources = {None: "", FROM_ISR: f" from {FROM_ISR}", FROM_ELR: f" from {FROM_ELR}"}
    where = sources.get(known["elected_from"], _outside(group))
    return f"Broker {leader} was elected{where} for leader epoch {epoch}{_metadata(group.head)}."


def _elected(election: Finding, group: Group) -> str:
    """A sentence about an election: the elected broker, and whether it came from the ISR, the ELR or neither."""
    facts = election.facts
    leader, before = facts["after"]["leader"], facts["before"]
    request = " on request" if facts["cause"] == _ON_REQUEST else ""
    is_clean = election.property != "leader_elected_cleanly"
    last = ", the last known leader," if leader in before["last_known_elr"] else ""
    if is_clean and leader in (*before["isr"], *before["elr"]):
        where = " from the ISR" if leader in before["isr"] else " from the ELR"
    elif leader in before["elr"]:
        where = " after the same change removed it from the ELR"
    else:
        where = _outside(group)
    return (
        f"Broker {leader}{last} was elected{request}{where}, for leader epoch {facts['leader_epoch']}"
        f"{_metadata(election)}."
    )


def _outside(group: Group) -> str:
    return " from outside the ISR and the ELR" if group.has_elr else " from outside the ISR"


def _circumstances(group: Group) -> list[str]:
    """Sentences about the circumstances of an election.

    They give the settings, the time without a leader, and whether KIP-966 intends the election.
    """
    sentences = []
    if (setting := configured(group)) is not None:
        of = f" {_level(setting)}" if setting else ""
        where = f" (metadata offset {setting['offset']})" if setting else ""
        sentences.append(f"{UNCLEAN}{of} was true{where}.")
    sentences += _after_setting(group)
    first = next((f for f in group.before if f.property == "somebody_is_electable"), None)
    if first is not None:
        sentences.append(f"The partition had no eligible leader from {moment(first.time)}{_metadata(first)}.")
    elif group.before:
        sentences += risks(Group(group.partition, group.before))[:1]
    election = group.of("leader_elected_cleanly")
    if election is not None and _is_designed(group, election):
        sentences.append(
            "KIP-966 intends this election in its first phase (966.15: the controller elects the last known leader)."
        )
    return sentences


def _is_designed(group: Group, election: Finding) -> bool:
    """True if the controller elected the last known leader as KIP-966 intends: without a request or a setting."""
    facts = election.facts
    by_itself = facts["cause"] != _ON_REQUEST and configured(group) is None
    is_last = facts["after"]["leader"] in facts["before"]["last_known_elr"]
    return by_itself and is_last and election.certain and not group.of("leader_is_active")


def _after_setting(group: Group) -> list[str]:
    """A sentence about a change of min.insync.replicas while the partition was under min ISR, if there was one."""
    found = next((f for f in (*group.before, *group.findings) if f.facts.get("resized")), None)
    if found is None:
        return []
    earlier, later = found.facts["resized"]["setting"]["time"], group.head.time
    ago = f"{_capital(span(later - earlier))} before, " if later is not None and later > earlier else ""
    change = _min_isr_change(found.facts)
    return [f"{ago}{change}."]


def _min_isr_change(facts: Mapping[str, Any]) -> str:
    """A change of min.insync.replicas in words, with the set values if known, else the effective values (966.2)."""
    changed = facts["resized"]
    setting_json = facts["settings"].get(MIN_ISR) if changed is None else changed["setting"]
    if setting_json is None:
        return f"{MIN_ISR} was changed"
    setting = SettingChange.from_json(setting_json)
    before = setting.before if changed is None else setting.before or str(changed["before"])
    after = setting.value if changed is None else setting.value or str(changed["after"])
    how = "changed"
    if changed is not None:
        how = "lowered" if changed["after"] < changed["before"] else "raised"
    values = f" from {before}" * (before is not None) + f" to {after}" * (after is not None)
    return f"{MIN_ISR} {_level(setting_json)} was {how}{values} (metadata offset {setting.position})"


def _level(setting: Mapping[str, Any]) -> str:
    level, resource = setting["level"], setting["resource"]
    return "of the cluster" if level == "cluster" else f"of {level} {resource}"


def _was_reassigned(group: Group) -> bool:
    found = group.of("elr_within_replicas")
    return found is not None and "reassign" in (found.facts.get("cause") or "")


def _when(group: Group) -> str:
    return moment(group.head.time)


def _metadata(finding: Finding) -> str:
    offset = finding.position.get("offset")
    return "" if offset is None else f" (metadata offset {offset})"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _sentences(text: str) -> list[str]:
    """A finding's summary as a sentence; none if the summary is empty."""
    return [_capital(text).rstrip(".") + "."] if text else []
