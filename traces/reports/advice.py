"""Advice about an incident: the steps to take, the most urgent first, with Kafka's commands filled in.

For each advice about a partition, ``SCENARIOS`` names the model scenario in which its steps are taken. The scenario
checks that no more records are lost and that the partition has a leader again. In the commands, users replace
``HOST:PORT``, ``LOG_DIR`` (the broker's ``log.dirs``), ``BACKUP``, ``GROUP``, ``INPUT`` (all paths of this replay), and
``NEW`` and ``OLD`` (values of min.insync.replicas).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from shlex import quote
from typing import Any

from highwater.traces.reports.findings import Reported
from highwater.traces.reports.observed import EMPTY, Controllers, ReplicaEnd
from highwater.traces.reports.text import AT_LEAST, BOUNDS, EXACT, count, offsets
from highwater.traces.reports.text import brokers as named
from highwater.traces.rules import profiles

NOW, RESTORE, CLIENTS, PREVENT = "do now", "restore", "clients", "prevent"
"""When to take a step, in order: before data is lost for good; to bring the partition back; for producers and
consumers; to prevent a repetition."""
HAS, TRUNCATED, LACKS, UNKNOWN = "has", "truncated", "lacks", "unknown"
"""The state of lost records on a replica."""

SCENARIOS = {
    "after_loss": "replication/advice-after-unclean-election",
    "compare": "replication/advice-after-unclean-election",
    "elect_best_log": "replication/advice-elect-best-log",
    "start_best_log": "replication/advice-start-best-log",
    "start_last_known_leader": "replication/advice-last-known-leader",
    "non_replica_in_elr": "replication/advice-non-replica-in-elr",
    "start_elr_members": "replication/advice-elr-without-gate",
    "shut_out": "replication/controller/advice-shut-out",
}
"""By the name of an advice function below: the scenario that takes the steps of this advice."""

_STAYS = "-stray"
"""The end of the name of a directory that no broker deletes."""
_SERVER = "--bootstrap-server HOST:PORT"


@dataclass(frozen=True)
class AdviceStep(Reported):
    """A step of an advice: when to take it, the action, and the commands."""

    when: str
    text: str
    commands: tuple[str, ...] = ()


_now, _restore = partial(AdviceStep, NOW), partial(AdviceStep, RESTORE)
_clients, _prevent = partial(AdviceStep, CLIENTS), partial(AdviceStep, PREVENT)


@dataclass(frozen=True)
class Holder(Reported):
    """The state of lost records on a broker.

    - ``records``: how many of the lost records are, or were, in the broker's log. ``standing`` says whether the number
      is exact or a bound.
    - ``time``, ``offset``: of the log's truncation, or of its last known end. ``time`` is in ms since the epoch.
    - ``directory``: where the broker has set the log aside; None if the log is in use.
    """

    broker: int
    state: str
    records: int
    time: int | None = None
    offset: int | None = None
    standing: str = EXACT
    directory: str | None = None


@dataclass(frozen=True)
class Replicas:
    """A partition's replicas in their order, with the ends of their logs if the input shows them."""

    partition: str
    order: tuple[int, ...]
    ends: tuple[ReplicaEnd, ...] = ()

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self.partition.rpartition("-")[0]

    @property
    def number(self) -> str:
        """The partition's number within its topic."""
        return self.partition.rpartition("-")[2]

    @property
    def known(self) -> dict[int, ReplicaEnd]:
        """The ends of the logs whose last leader epoch and length are known, by broker."""
        ends = (e for e in self.ends if e.directory is None)
        return {e.broker: e for e in ends if e.last_epoch is not None and not e.at_least}

    @property
    def not_known(self) -> list[int]:
        """The replicas whose log ends are unknown."""
        return [b for b in self.order if b not in self.known]

    def best(self) -> int | None:
        """The replica with the best log by rule 966.14, the first one among equals; None if no log's end is known."""
        found: ReplicaEnd | None = None
        for end in (self.known[b] for b in self.order if b in self.known):
            if found is None or profiles.is_better_log(theirs=_log(end), mine=_log(found)):
                found = end
        return None if found is None else found.broker


def _log(end: ReplicaEnd) -> dict[str, int | None]:
    return {"last_epoch": None if end.last_epoch == EMPTY else end.last_epoch, "end": end.leo}


# --- commands -------------------------------------------------------------------------------------------------------


def stop(broker: int) -> str:
    """The command that stops a broker cleanly."""
    return f"kafka-server-stop.sh --node-id={broker}"


def start(broker: int) -> str:
    """The command that starts a broker; run on the broker's machine."""
    return f"kafka-server-start.sh -daemon config/server.properties  # on broker {broker}"


def copy(partition: str, broker: int, directory: str | None = None) -> str:
    """The command that copies a replica's directory; run on the broker's machine."""
    source = f"LOG_DIR/{quote(partition)}" if directory is None else quote(directory)
    return f"cp -a {source} {_copy_of(partition, broker)}  # on broker {broker}"


def dump(partition: str, broker: int) -> str:
    """The command that writes a replica's batches to a file; run on the broker's machine."""
    files = _segments(f"LOG_DIR/{quote(partition)}")
    return f"kafka-dump-log.sh --files {files} > {_dump_of(partition, broker)}  # on broker {broker}"


def dump_copy(partition: str, broker: int) -> str:
    """The command that prints the records in the copy of a replica's directory."""
    return f"kafka-dump-log.sh --print-data-log --files {_segments(_copy_of(partition, broker))}"


def _copy_of(partition: str, broker: int) -> str:
    return f"BACKUP/{quote(f'{partition}-broker-{broker}')}"


def _dump_of(partition: str, broker: int) -> str:
    """The file of a dump. Its name has the broker's id, because replay takes the broker from the file name."""
    return quote(f"data-node{broker}-{partition}.txt")


def _segments(directory: str) -> str:
    return f'"$(ls {directory}/*.log | paste -sd,)"'


def elect(r: Replicas) -> str:
    """The command that requests an unclean election of a partition."""
    return f"kafka-leader-election.sh {_SERVER} --election-type unclean --topic {quote(r.topic)} --partition {r.number}"


def describe(r: Replicas) -> str:
    """The command that shows the leaders of a topic's partitions."""
    return f"kafka-topics.sh {_SERVER} --describe --topic {quote(r.topic)}"


def set_topic(topic: str, setting: str) -> str:
    """The command that sets a configuration of a topic."""
    return (
        f"kafka-configs.sh {_SERVER} --alter --entity-type topics --entity-name {quote(topic)} "
        f"--add-config {setting}"
    )


def set_cluster(setting: str) -> str:
    """The command that sets a default of the cluster."""
    return f"kafka-configs.sh {_SERVER} --alter --entity-type brokers --entity-default --add-config {setting}"


def reset(r: Replicas, offset: int) -> str:
    """The command that resets a consumer group to an offset of a partition."""
    return (
        f"kafka-consumer-groups.sh {_SERVER} --group GROUP --topic {quote(f'{r.topic}:{r.number}')} --reset-offsets "
        f"--to-offset {offset} --execute"
    )


# --- advice ---------------------------------------------------------------------------------------------------------


def after_loss(
    r: Replicas, holders: Sequence[Holder], leader: int, first: int, end: int, more: bool = False
) -> Iterator[AdviceStep]:
    """The steps after the leader's log lost the committed records from ``first`` to ``end`` - 1.

    With ``more``, further records may be lost.
    """
    have = [h for h in holders if h.state == HAS]
    unknown = [h.broker for h in holders if h.state == UNKNOWN and h.directory is None]
    for holder in holders:
        if holder.directory is not None:
            yield _copy_aside(r, holder)
    for holder in have:
        b = holder.broker
        if holder.directory is not None:
            continue
        yield _now(
            f"Stop broker {b} (or keep it stopped) and copy its log. When last seen, it had "
            f"{BOUNDS[holder.standing]}{count(holder.records, 'lost record')}. It "
            f"truncates them when it follows leader {leader}.",
            (stop(b), copy(r.partition, b)),
        )
    for b in unknown:
        yield _now(
            f"Stop broker {b} (or keep it stopped) and copy its log. The input does not show whether it still has the "
            f"lost records. It truncates them when it follows leader {leader}.",
            (stop(b), copy(r.partition, b), dump(r.partition, b)),
        )
    asides = [h.broker for h in holders if h.directory is not None]
    stays = [h.broker for h in holders if (h.directory or "").endswith(_STAYS)]
    if not have and not unknown and not asides:
        yield _now("The replicas cannot restore the lost records: none of them has any left.")
    if have or unknown or asides:
        sources = [h.broker for h in have] or asides or unknown
        stopped = [b for b in sources if b not in stays]
        begin = f"Start {named(stopped)} after the copy. Read" if stopped else "Read"
        yield _restore(
            f"{begin} offsets {offsets(first, end)}{' and later ones' * more} from the copy, and let the application "
            "write them again.",
            (dump_copy(r.partition, sources[0]), *(start(b) for b in stopped)),
        )
    yield _clients(
        "Inform the producers' owners: acknowledged records are lost. Only an application with its own copy can send "
        "them again.",
    )
    yield _clients(
        f"Stop each consumer group that has read past offset {first}, and reset it. Otherwise it skips the records "
        "written there since.",
        (reset(r, first),),
    )


def _copy_aside(r: Replicas, holder: Holder) -> AdviceStep:
    """The step that copies a log which its broker has set aside, before the broker deletes it."""
    b, directory = holder.broker, holder.directory or ""
    had = (
        f"{BOUNDS[holder.standing]}{count(holder.records, 'lost record')}"
        if holder.records
        else "lost records"
    )
    can = "had" if holder.state == HAS else "may have"
    commands: tuple[str, ...] = (copy(r.partition, b, directory),)
    if directory.endswith(_STAYS):
        return _now(
            f"Copy the log that broker {b} has set aside: it {can} {had}. Brokers keep such a directory.",
            commands,
        )
    return _now(
        f"Stop broker {b} (or keep it stopped) and copy the log that it has set aside: it {can} {had}. A running "
        "broker deletes the directory log.segment.delete.delay.ms (one minute by default) after it renamed or loaded "
        "it.",
        (stop(b), *commands),
    )


def nothing_left() -> AdviceStep:
    """The step if the topic has been deleted since."""
    return _now(
        "No action needed, unless you want records of the deleted topic: a broker that is down keeps its log until it "
        "starts.",
    )


def compare(r: Replicas, leader: int, back: Sequence[int] = ()) -> Iterator[AdviceStep]:
    """The steps after an election that may have lost records, if the input does not show whether it did.

    The replicas ``back`` have joined the ISR since, so they have truncated their logs.
    """
    others = [b for b in r.order if b != leader and b not in back]
    gone = [b for b in back if b != leader]
    if gone:
        yield _now(
            f"{named(gone).capitalize()} {'has' if len(gone) == 1 else 'have'} joined the ISR since the election, with "
            "the new leader's log: nothing is left to copy there.",
        )
    if not others:
        if not gone:
            yield _now(f"No other replica of {r.partition} has a log to compare with.")
        return
    yield _now(
        f"Stop {named(others)} and copy their logs before they truncate to the log of leader {leader}.",
        (*(stop(b) for b in others), *(copy(r.partition, b) for b in others)),
    )
    yield _restore(
        "Compare the logs: run highwater replay with the brokers' logs, or with dumps of their data. Then start the "
        "brokers.",
        (*(dump(r.partition, b) for b in r.order if b not in gone), *(start(b) for b in others)),
    )


def elect_best_log(r: Replicas) -> Iterator[AdviceStep]:
    """The steps if no replica is eligible: elect the replica with the best log uncleanly (966.14).

    If the end of a log is unknown, the steps collect dumps instead.
    """
    best, missing = r.best(), r.not_known
    if missing or best is None:
        yield from _collect(r)
        return
    yield _now(
        "Copy the log of each replica before an election.",
        tuple(copy(r.partition, b) for b in r.order),
    )
    ends = "; ".join(_end(r.known[b]) for b in r.order)
    yield _restore(
        f"Elect broker {best}. Its last record has the highest leader epoch, and its log is the longest of that epoch.",
    )
    yield _restore(f"The ends of the logs: {ends}.")
    before = r.order[: r.order.index(best)]
    if before:
        yield _restore(
            f"First stop {named(before)} and wait until the controller has fenced them. It elects the first live "
            f"replica in the order {list(r.order)}.",
            tuple(stop(b) for b in before),
        )
    yield _restore(f"With broker {best} running, request the unclean election.", (elect(r),))
    if before:
        yield _restore(
            f"Start {named(before)} again when broker {best} leads.",
            (describe(r), *(start(b) for b in before)),
        )


def start_best_log(r: Replicas, eligible: Sequence[int]) -> Iterator[AdviceStep]:
    """The steps if a partition is offline, and an eligible replica may lack committed records.

    The first eligible replica that starts becomes the leader. If the end of a log is unknown, the steps collect dumps.
    """
    best, missing = r.best(), r.not_known
    risky = [b for b in eligible if missing or b != best]
    if risky:
        it = "it" if len(risky) == 1 else "them"
        yield _now(
            f"Stop {named(risky)} (or keep {it} stopped): the first one that is unfenced is elected, and may lack "
            "committed records.",
        )
    if missing or best is None:
        yield from _collect(r)
    elif best in eligible:
        yield _restore(
            f"Start broker {best} first, if it is down: its log is the best."
            + " Start the others when it leads." * (len(r.order) > 1),
            (start(best), describe(r)),
        )
    else:
        yield from elect_best_log(r)
        if left := [b for b in eligible if b not in r.order[: r.order.index(best)]]:
            yield _restore(f"Start {named(left)} when broker {best} leads.", tuple(start(b) for b in left))


def _collect(r: Replicas) -> Iterator[AdviceStep]:
    """The steps if the ends of some replicas' logs are unknown: dump these logs, then compare (966.14)."""
    best, missing = r.best(), r.not_known
    yield _now(
        f"The input does not show where the logs of {named(missing)} end. Copy and dump them before any election.",
        tuple(c for b in missing for c in (copy(r.partition, b), dump(r.partition, b))),
    )
    so_far = "" if best is None else f" The best of the known logs: {_end(r.known[best])}."
    yield _restore(
        "Run highwater replay again with the same input and the dumps. The best log has the highest last leader "
        f"epoch; among equal epochs it is the longest.{so_far}",
        (f"highwater replay INPUT {' '.join(_dump_of(r.partition, b) for b in missing)}",),
    )


def _end(end: ReplicaEnd) -> str:
    if end.last_epoch == EMPTY:
        return f"broker {end.broker}: empty"
    return f"broker {end.broker}: leader epoch {end.last_epoch}, offset {end.leo:,}"


def start_last_known_leader(r: Replicas, leader: int) -> Iterator[AdviceStep]:
    """The steps if ISR and ELR are empty: the controller elects the last known leader when it returns (966.15)."""
    yield _restore(
        f"Start broker {leader}, the last known leader. The controller elects it as soon as it is unfenced. Start the "
        "others when it leads.",
        (start(leader), describe(r)),
    )
    yield _restore(
        f"If broker {leader} has lost its disk, keep it stopped. Dump the other replicas' logs, and elect the one with "
        "the highest last leader epoch.",
        tuple(dump(r.partition, b) for b in r.order if b != leader),
    )


def non_replica_in_elr(r: Replicas, strangers: Sequence[int], leader: int | None) -> Iterator[AdviceStep]:
    """The steps if the ELR has brokers that are no longer replicas and have deleted their logs (``strangers``)."""
    yield _now(
        f"Do not add {named(strangers)} to the replicas of {r.partition}: the ELR would let the controller elect a "
        "replica without records.",
    )
    if leader is None:
        return
    yield _now(f"Keep leader {leader} running.")
    others = [b for b in r.order if b != leader]
    if others:
        yield _restore(
            f"Start {named(others)} if down. The ELR is emptied once min.insync.replicas members are in the ISR.",
            tuple(start(b) for b in others),
        )


def start_elr_members(members: Sequence[int], leader: int | None) -> Iterator[AdviceStep]:
    """The steps if ELR members lack newer committed records: start them while the leader runs."""
    if leader is not None:
        yield _now(
            f"Keep leader {leader} running until {named(members)} {'is' if len(members) == 1 else 'are'} in the ISR.",
        )
    yield _restore(
        f"Start {named(members)} while the leader runs, so that the missing records are fetched first.",
        tuple(start(b) for b in members),
    )


def isr_members_lack(members: Sequence[int]) -> Iterator[AdviceStep]:
    """The steps if ISR members that do not lead lack committed records: such members run."""
    yield _now(
        f"Start and stop nothing: {named(members)} {'is' if len(members) == 1 else 'are'} in the ISR. A follower "
        "fetches the missing records while the leader runs.",
    )


def shut_out(r: Replicas) -> Iterator[AdviceStep]:
    """The steps if the last known leader is not a replica.

    If a replica of the partition registers, the active controller then resigns, and so does each later one.
    """
    yield _now(
        f"Do not start a replica of {r.partition} that is down: its registration makes controllers resign.",
    )
    yield _restore(
        "Change the topic's min.insync.replicas, and change it back. The controller then forgets the last known "
        "leader, and the replicas can register. Meanwhile every other partition of the topic needs its full ISR, "
        "because the change also clears its ELR.",
        tuple(set_topic(r.topic, f"min.insync.replicas={value}") for value in ("NEW", "OLD")),
    )
    yield from elect_best_log(r)


def controller_resigns(found: Controllers, partitions: Sequence[str]) -> Iterator[AdviceStep]:
    """The steps for repeated controller elections."""
    refused = sorted(int(b) for b in found.refused)
    if refused:
        yield _now(
            f"Stop {named(refused)}: each attempt to register makes the active controller resign.",
            tuple(stop(b) for b in refused),
        )
    if partitions:
        yield _restore(f"See the incident of {', '.join(partitions[:3])}.")
    else:
        yield _now(
            "On each controller, find out why it resigned.",
            ("grep -e 'Renouncing leadership' -e 'Completed transition to Unattached' controller.log",),
        )


def no_unclean_election(topic: str, level: str) -> AdviceStep:
    """The step that disables unclean election, at the level of the setting that enabled it."""
    setting = "unclean.leader.election.enable=false"
    return _prevent(
        "Disable unclean leader election, if the partition should wait rather than lose records.",
        (set_cluster(setting) if level == "cluster" else set_topic(topic, setting),),
    )


def whole_isr_first() -> AdviceStep:
    """The step that prevents a change of min.insync.replicas while a partition is under min ISR."""
    return _prevent(
        "Change min.insync.replicas only while each partition concerned has a leader and all replicas in the ISR.",
    )


def compare_before_request() -> AdviceStep:
    """The step that prevents the wrong choice in a requested unclean election."""
    return _prevent(
        "Before you request an unclean election, compare the logs of all replicas with highwater replay.",
    )


def holders(
    had: Sequence[Mapping[str, Any]],
    r: Replicas,
    leader: int,
    leader_epoch: int,
    first: int,
    end: int,
    back: Collection[int] = (),
) -> tuple[Holder, ...]:
    """The state of the lost records from ``first`` to ``end`` - 1 on each replica.

    ``leader`` lost the records in ``leader_epoch``. ``had`` has the number of these records that each broker had. The
    brokers ``back`` have joined the ISR since the election.
    """
    had_by = {one["broker"]: one for one in had}
    ends = {one.broker: one for one in r.ends if one.directory is None}
    asides = {one.broker: one for one in r.ends if one.directory is not None}
    found = []
    for broker in dict.fromkeys((*r.order, *had_by, *asides)):
        its = had_by.get(broker, {})
        holder = Holder(
            broker, UNKNOWN, its.get("records", 0), standing=AT_LEAST if its.get("at_least", True) else EXACT
        )
        known = ends.get(broker)
        if broker == leader:
            holder = replace(holder, state=LACKS, records=0, standing=EXACT)
        elif known is not None:
            holder = _holder(holder, known, leader_epoch, first, end)
        if broker in back and holder.state in (HAS, UNKNOWN):  # a member of the ISR has the leader's log
            holder = replace(holder, state=TRUNCATED, time=None, offset=None)
        if broker in asides and not (asides[broker].is_deleted and broker in r.order):
            holder = _aside(holder, asides[broker], leader_epoch, first, end)
        found.append(holder)
    return tuple(found)


def _aside(holder: Holder, known: ReplicaEnd, leader_epoch: int, first: int, end: int) -> Holder:
    """The state with a log that the broker has set aside, if that log has the records, or may have them."""
    if known.is_deleted:
        gone = replace(holder, state=LACKS, records=0, standing=EXACT)
        return gone if holder.state == UNKNOWN else holder
    its = _holder(replace(holder, state=UNKNOWN), known, leader_epoch, first, end)
    is_better = its.state == HAS or (its.state == UNKNOWN and holder.state != HAS)
    return replace(its, directory=known.directory) if is_better else holder


def _holder(holder: Holder, known: ReplicaEnd, leader_epoch: int, first: int, end: int) -> Holder:
    """Add the state that the end of a replica's log shows. Only an exact end shows that records are missing."""
    cut = next((t for t in known.truncations if t.leader_epoch >= leader_epoch and t.to < end), None)
    if cut is not None:
        return replace(holder, state=TRUNCATED, time=cut.time, offset=cut.to)
    holder = replace(holder, time=known.time, offset=known.leo)
    if known.leader_epoch >= leader_epoch:  # it may have truncated its log since
        return holder
    if holder.records:
        return replace(holder, state=HAS)
    return replace(holder, state=UNKNOWN if known.at_least or known.leo > first else LACKS)
