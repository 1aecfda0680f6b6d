"""The high watermark (HWM) of a leader: how it advances, and that what it passes is committed (B4, B7, 966.1).

A record below a leader's HWM is served to consumers and acknowledged to producers; from then on nobody may lose it. So
the HWM waits for all who could be elected without being asked: the maximal ISR. It is no message and no step of its
own. Whatever a step does to a leader (a fetch, an answer of the controller, news from the metadata log, an append), the
HWM then goes as far as it can, as Kafka does under the lock of the partition: steps end with ``advance_hwm``.
"""

from __future__ import annotations

from highwater.model.language import (
    Number,
    SeqValue,
    SetValue,
    State,
    StructValue,
    Truth,
    greatest,
    least,
    size,
    under,
    where,
)  # fmt: skip
from highwater.model.replication.cluster import Cluster, is_the
from highwater.model.replication.logs import end_is_told, gate_is_open


def advance_hwm(m: Cluster, s: State, b: Number, broker: StructValue) -> None:
    """Write a broker as a step leaves it; where it leads, its HWM goes as far as it can."""
    store_with_hwm(m, s, b, broker, advanced_hwm(m, b, broker))


def store_with_hwm(m: Cluster, s: State, b: Number, broker: StructValue, hwm: Number) -> None:
    """Write a broker as a step leaves it; where it leads, its HWM is this one, and commits what it passes."""
    leads = m.leads(b, broker)
    hwm = where(leads, hwm, broker.hwm)
    s.next.brokers[b] = broker.replace(hwm=hwm)
    commit(m, s, leads, broker.log, hwm if m.on("consumers_read_below_hwm") else broker.log.length)


def commit(m: Cluster, s: State, leads: Truth, log: SeqValue, hwm: Number) -> None:
    """B4, B6. What a leader's HWM has passed is committed, and stays so whatever becomes of that leader.

    A leader that nobody follows any more commits, too, if its HWM moves: consumers read from it. That another one then
    holds something else at this offset is the loss that the proposals are to exclude.
    """
    committed: SeqValue = s.committed
    for offset in m.offsets:
        is_news = leads & (hwm > offset) & (committed.length == offset)
        committed = where(is_news, committed.append(log.at(offset)), committed)
    s.next.committed = committed


def advanced_hwm(m: Cluster, b: Number, leader: StructValue) -> Number:
    """B4, 966.1. A leader's HWM once it has moved as far as it can; never back.

    Who has read up to it must not see it fall: it stays where it is when a replica with a lesser LEO joins, and while
    the ISR is under min ISR.
    """
    no_further = 0
    may_reach = where(may_advance(m, b, leader), least_leo(m, b, leader), no_further)
    return greatest(leader.hwm, may_reach)


def tells_end(m: Cluster, leader: StructValue) -> Truth:
    """207.1. Whether a leader tells consumers its HWM as the end of the log, or that it does not know yet.

    A new leader's HWM lags behind what an earlier one has told them: as a follower it heard of it an answer later, and
    after a crash its checkpoint is older still. From its LESO on it cannot lag: all that was committed is before.
    """
    return under("end_waits_for_epoch_start", end_is_told(leader.hwm, leader.leso))


def may_advance(m: Cluster, b: Number, leader: StructValue) -> Truth:
    """966.1. Whether the HWM may move at all: while the committed ISR has min ISR members, whatever the acks.

    It closes the last replica standing. An ISR that shrank to its leader would commit alone; that leader crashes and
    loses its tail, and as the only ISR member it is elected again: everybody truncates to it. As long as the gate is
    closed, those who left the ISR hold all that is committed, and can be elected: they are the ELR.
    The ISR is the committed one, as a proposed member may yet be refused. A broker of the version before has no gate.
    """
    counted = leader.view.isr if m.on("hwm_gate_is_committed_isr") else m.maximal_isr(leader)
    is_open = under("hwm_needs_min_isr", gate_is_open(size(counted), m.min_isr_in(leader.view)))
    return is_open | is_the(b, m.p.ungated_broker)


def least_leo(m: Cluster, b: Number, leader: StructValue) -> Number:
    """B4. The least LEO over the leader and all replicas that its HWM waits for, as far as the leader has heard.

    A follower's LEO is the offset of its last fetch: it has everything before. Who has not fetched yet counts as 0.
    """
    members = waits_for(m, leader)
    end: Number = leader.log.length
    for f in m.broker:
        heard = leader.followers[f].leo
        leo = where(heard.is_some, heard.value, 0)
        waits = members.has(f) | (m.on("hwm_waits_for_caught_up") & is_caught_up(leader, f))
        end = where((f != b) & waits, least(end, leo), end)
    return end


def waits_for(m: Cluster, leader: StructValue) -> SetValue:
    """B4, B7. The maximal ISR: a proposed member may be in the ISR already, and be elected, before the leader hears."""
    isr: SetValue = m.maximal_isr(leader) if m.on("hwm_over_maximal_isr") else leader.view.isr
    if not m.on("hwm_waits_for_leaving"):
        isr = where(leader.proposed.is_some, isr & leader.proposed.value, isr)
    return isr


def is_caught_up(leader: StructValue, f: Number) -> Truth:
    """K3. Whether a replica outside the ISR is about to join, so that the HWM waits for it.

    Without that the HWM runs ahead of it for ever while records keep coming, and it never joins. Only who is eligible
    counts: a replica that cannot join must not hold up the others.
    """
    known, view = leader.followers[f], leader.view
    eligible = view.active.has(f) & (known.broker_epoch == view.epochs[f])
    return known.caught_up & eligible & known.leo.is_some & view.replicas.has(f)
