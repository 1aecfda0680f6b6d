"""Incidents in one sentence each, from the facts of their findings. No rule is stated here, and no text is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from highwater.traces.reports.settings import MIN_ISR, UNCLEAN, SettingChange
from highwater.traces.reports.text import utc

if TYPE_CHECKING:
    from highwater.traces.reports.findings import Finding
    from highwater.traces.reports.incidents import Group

_ON_REQUEST = "elect_leader"
_SIDES = {"the ISR": "from the ISR", "the ELR": "from the ELR"}


def lost(group: Group) -> str:
    """Records that were committed are gone from the leader's log."""
    loss = group.with_fact("lost")
    assert loss is not None
    known = loss.facts
    number = _records(known["lost"])
    head = f"{group.partition} lost {'up to ' if known.get('at_most') else ''}{number}, "
    said = (
        head
        + f"offsets [{known['first_lost']}, {known['end_lost']}), at {_first_when(group.head)}: {_how(group)}"
    )
    said += (
        f" with a log that ended at offset {known['leo']}{_configured(group)}{_after(group)}{_stuck(group)}"
    )
    parts = [said]
    if had := _had(known["had"], known["lost"]):
        parts.append(had)
    if gone := group.with_fact("gone"):
        parts.append(f"no replica had {_all_of(gone.facts['gone'], known['lost'])} any more")
    if shown := group.with_fact("shown"):
        before, after = shown.facts["shown_before"], shown.facts["shown"]
        parts.append(
            f"consumers were shown the end of the log at {before}, and later at {after}"
            if after < before
            else f"consumers that had read up to {before} go on with other records"
        )
    return "; ".join(parts) + "."


def elected(group: Group, has_logs: bool) -> str:
    """An unclean election of which it is not known that it lost anything."""
    election = group.of("leader_elected_cleanly", "leader_completeness")
    assert election is not None
    complete = election.facts.get("complete")
    around = f"{_how(group)}{_configured(group)}{_after(group)}{_stuck(group)}"
    if complete is not None:
        return (
            f"{group.partition} had an unclean election at {_first_when(group.head)}, and lost nothing that the "
            f"brokers' logs show: {around}; its log ended at offset {complete['leo']}, and the HWM had reached "
            f"{complete['hwm']}."
        )
    why = "the brokers' logs do not say" if has_logs else "only the brokers' logs can say"
    return (
        f"{group.partition} may have lost committed records at {_first_when(group.head)}: {around}; whether any, and "
        f"how many, {why}."
    )


def nobody(group: Group) -> str:
    """A partition has nobody who can be elected cleanly."""
    head = group.head
    before, after, cause = (head.facts[name] for name in ("before", "after", "cause"))
    had = (*before["isr"], *before["elr"])
    if cause == "change_min_isr":
        emptied = f"the ELR ({_brokers(before['elr'])})" if before["elr"] else "what was left of it"
        what = f"{_min_isr_change(head.facts)}, which emptied {emptied}"
    elif cause == "register" and had:
        what = f"the registration of a broker took {_brokers(had)} out of ISR and ELR"
    else:
        what = f"{_brokers(had)} left ISR and ELR" if had else "ISR and ELR are empty"
    known = after["last_known_elr"]
    rest = f"its last known leader is {_brokers(known)}" if known else "no last known leader is left either"
    told = "" if cause == "change_min_isr" else _after(group)
    return (
        f"{group.partition} has nobody to elect without loss since {_first_when(head)}: {what}{told}; {rest}."
    )


def broken(group: Group) -> str:
    """A promise that is broken without a loss so far."""
    head = group.head
    told = _risks(group)
    if not told:
        return f"{group.partition}, at {_first_when(head)}: {head.summary}"
    known = "can" if head.certain else "may, as far as the log tells,"
    since = f"lose committed records since {_first_when(head)}"
    return f"{group.partition} {known} {since}: {'; '.join(told)}{_after(group)}."


def is_configured(group: Group) -> bool:
    """Whether an unclean election was what the settings in force allow."""
    return any(f.facts.get("unclean_election") for f in group.findings)


def _risks(group: Group) -> list[str]:
    """What can come of it, in the order in which it is read best."""
    said = []
    stranger, standing = group.of("elr_within_replicas"), group.of("elr_only_under_min_isr")
    if stranger is not None and "after" in stranger.facts:
        after = stranger.facts["after"]
        gone = [b for b in after["elr"] if b not in after["replicas"]]
        by = ", which a reassignment took away," if "reassign" in (stranger.facts["cause"] or "") else ""
        who = "are in the ELR and no replicas" if len(gone) > 1 else "is in the ELR and no replica"
        said += [f"{_brokers(gone)}{by} {who} any more"] if gone else []
    elif standing is not None and standing.facts.get("min_isr") is not None:
        after, min_isr = standing.facts["after"], standing.facts["min_isr"]
        one = len(after["elr"]) == 1
        said.append(
            f"{_brokers(after['elr'])} {'stays' if one else 'stay'} in the ELR though the ISR {after['isr']} has min "
            f"ISR ({min_isr}) members, so the HWM does not wait for {'it' if one else 'them'}"
        )
    few = group.of("enough_are_electable")
    if few is not None and few.facts.get("min_isr") is not None:
        said.append(f"fewer than min ISR ({few.facts['min_isr']}) replicas are in ISR and ELR")
    lacking = [f.facts for f in group.findings if "member_of" in f.facts]
    said += [
        f"the log of broker {f['broker']}, in the {f['member_of']}, ended at {f['leo']}, below the HWM {f['hwm']}"
        for f in lacking
    ]
    return said


def _how(group: Group) -> str:
    """Who came to lead, and from where."""
    loss, election = group.with_fact("lost"), group.of("leader_elected_cleanly", "leader_completeness")
    if loss is not None and (election is None or "after" not in election.facts):
        known = loss.facts
        if known["restarted"]:
            return f"leader {known['leader']} restarted in leader epoch {known['leader_epoch']}"
        side = known["elected_from"]
        return f"broker {known['leader']}{_from(side)} was elected for leader epoch {known['leader_epoch']}"
    assert election is not None
    facts = election.facts
    leader, epoch = facts["after"]["leader"], facts["leader_epoch"]
    request = " on request" if facts["cause"] == _ON_REQUEST else ""
    designed = ", as the first phase of KIP-966 has it (966.15)" if _is_designed(group, election) else ""
    return f"broker {leader}{_side(election)} was elected{request} for leader epoch {epoch}{designed}"


def _side(election: Finding) -> str:
    """Where the leader was before the change."""
    before, leader = election.facts["before"], election.facts["after"]["leader"]
    is_clean = election.property != "leader_elected_cleanly"
    if is_clean and leader in (*before["isr"], *before["elr"]):
        return ", from the ISR," if leader in before["isr"] else ", from the ELR,"
    last = "the last known leader, " if leader in before["last_known_elr"] else ""
    if leader in before["elr"]:
        return f", {last}which the same change took out of the ELR,"
    return f", {last}in neither ISR nor ELR,"


def _is_designed(group: Group, election: Finding) -> bool:
    """Whether it is the proposal's own election of the last known leader, where nobody asked for another one."""
    facts = election.facts
    by_itself = facts["cause"] != _ON_REQUEST and not is_configured(group)
    is_last = facts["after"]["leader"] in facts["before"]["last_known_elr"]
    return by_itself and is_last and election.certain and not group.of("leader_is_active")


def _from(side: str | None) -> str:
    return "" if side is None else f", {_SIDES.get(side, 'in neither ISR nor ELR')},"


def _configured(group: Group) -> str:
    """That unclean election was enabled, and where."""
    found = next((f for f in group.findings if f.facts.get("unclean_election")), None)
    if found is None:
        return ""
    setting = found.facts["settings"].get(UNCLEAN)
    of, where = ("", "") if setting is None else (f" {_level(setting)}", f" since offset {setting['offset']}")
    return f", as configured ({UNCLEAN}{of} is true{where})"


def _after(group: Group) -> str:
    """The change of min.insync.replicas that met the partition under min ISR, and how long before."""
    found = next((f for f in (*group.before, *group.findings) if f.facts.get("resized")), None)
    if found is None:
        return ""
    span = _apart(found.facts["resized"]["setting"]["time"], group.head.time)
    left = ", which left nobody to elect cleanly" if _by_setting(group.before) else ""
    return f", {span}after {_min_isr_change(found.facts)}{left}"


def _stuck(group: Group) -> str:
    """Since when nobody could be elected cleanly, where it does not come from the setting that is told."""
    if not group.before or _by_setting(group.before):
        return ""
    return f"; nobody could be elected cleanly since {_when(group.before[0])}"


def _by_setting(before: Sequence[Finding]) -> bool:
    return any(f.facts["cause"] == "change_min_isr" and f.facts["resized"] for f in before)


def _min_isr_change(facts: Mapping[str, Any]) -> str:
    """The change of min.insync.replicas, by its values where they are known, else by the effective ones (966.2)."""
    resized = facts["resized"]
    told = facts["settings"].get(MIN_ISR) if resized is None else resized["setting"]
    if told is None:
        return f"{MIN_ISR} was changed"
    setting = SettingChange.from_json(told)
    before = setting.before if resized is None else setting.before or str(resized["before"])
    after = setting.value if resized is None else setting.value or str(resized["after"])
    how = "changed"
    if resized is not None:
        how = "lowered" if resized["after"] < resized["before"] else "raised"
    values = f" from {before}" * (before is not None) + f" to {after}" * (after is not None)
    return f"{MIN_ISR} {_level(told)} was {how}{values} (offset {setting.position})"


def _level(setting: Mapping[str, Any]) -> str:
    level, resource = setting["level"], setting["resource"]
    return "of the cluster" if level == "cluster" else f"of {level} {resource}"


def _apart(earlier: int, later: int | None) -> str:
    if later is None or later < earlier or later == earlier:
        return ""
    return f"{_span(later - earlier)} "


def _span(milliseconds: int) -> str:
    """A duration in its two largest units at most."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = round(milliseconds / 1000)
    for unit, name, less, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= unit:
            rest = seconds % unit // less
            return f"{seconds // unit} {name}" + (f" {rest} {small}" if rest else "")
    return f"{seconds} s"


def _had(had: Sequence[Mapping[str, Any]], lost_records: int) -> str:
    """Who had the records before."""
    whole = [one["broker"] for one in had if one["records"] == lost_records]
    parts = [one for one in had if one["records"] != lost_records]
    said = [f"{_brokers(whole)} had all of them"] if whole else []
    said += [
        f"broker {one['broker']} had {'at least ' if one['at_least'] else ''}{one['records']:,} of them"
        for one in parts
    ]
    return (
        f"{' and '.join(said)}, and drop{'s' * (len(had) == 1)} them to follow the new leader" if said else ""
    )


def _all_of(gone: int, lost_records: int) -> str:
    return "any of them" if gone == lost_records else f"{gone:,} of them"


def _brokers(members: Sequence[int]) -> str:
    *rest, last = map(str, dict.fromkeys(members))
    return f"brokers {', '.join(rest)} and {last}" if rest else f"broker {last}"


def _records(number: int) -> str:
    return f"{number:,} committed record{'s' * (number != 1)}"


def _first_when(found: Finding) -> str:
    """The time, and the place in the metadata log, which is not one of the offsets that a sentence is about."""
    return _when(found).replace(")", " of the metadata log)")


def _when(found: Finding) -> str:
    offset = found.position.get("offset")
    return utc(found.time) + ("" if offset is None else f" (offset {offset})")
