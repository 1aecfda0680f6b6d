"""The high watermark (HWM) of a leader: when it advances, and what it commits (B4, B7, 966.1).

Consumers read records below the HWM, and producers get acknowledgements for them, so no election may lose such a
record. The HWM therefore waits for all brokers that an election can pick: the maximal ISR. The advance is not an
action of its own. Every action that changes a leader (a fetch, an AlterPartition response, new metadata, an append)
also advances the leader's HWM as far as allowed. In the same way Kafka advances the HWM under the partition's lock.
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
    """Store a broker after an action. If it leads, advance its HWM as far as allowed, and commit the records below."""
    store_with_hwm(m, s, b, broker, advanced_hwm(m, b, broker))


def store_with_hwm(m: Cluster, s: State, b: Number, broker: StructValue, hwm: Number) -> None:
    """Store a broker after an action. If it leads, set its HWM to ``hwm`` and commit the records below ``hwm``."""
    leads = m.leads(b, broker)
    hwm = where(leads, hwm, broker.hwm)
    s.next.brokers[b] = broker.replace(hwm=hwm)
    commit(m, s, leads, broker.log, hwm if m.on("consumers_read_below_hwm") else broker.log.length)


def commit(m: Cluster, s: State, leads: Truth, log: SeqValue, hwm: Number) -> None:
    """B4, B6. If ``leads``, append the records of ``log`` below ``hwm`` to ``committed``, an append-only ghost log.

    A zombie leader commits as well, because consumers read from it. If another leader has a different record at the
    same offset, a committed record is lost. The rules of the proposals prevent that loss.
    """
    committed: SeqValue = s.committed
    for offset in m.offsets:
        is_news = leads & (hwm > offset) & (committed.length == offset)
        committed = where(is_news, committed.append(log.at(offset)), committed)
    s.next.committed = committed


def advanced_hwm(m: Cluster, b: Number, leader: StructValue) -> Number:
    """B4, 966.1. The HWM of a leader after it advances as far as allowed; it never decreases.

    The HWM stays the same when a replica with a smaller LEO joins the ISR, and while the ISR is under min ISR.
    Consumers have already read the records below the HWM.
    """
    no_further = 0
    may_reach = where(may_advance(m, b, leader), least_leo(m, b, leader), no_further)
    return greatest(leader.hwm, may_reach)


def tells_end(m: Cluster, leader: StructValue) -> Truth:
    """207.1. True if a leader may answer consumers with its HWM as the end of the log.

    A new leader's HWM may be below the end that the previous leader gave: a follower learns the HWM one response late,
    and after a crash a broker starts with an older checkpoint. Once the HWM has reached the LESO, all records that
    earlier leaders committed are below the HWM.
    """
    return under("end_waits_for_epoch_start", end_is_told(leader.hwm, leader.leso))


def may_advance(m: Cluster, b: Number, leader: StructValue) -> Truth:
    """966.1. True if the HWM may advance: the committed ISR has at least min ISR members, whatever the records' acks.

    Without this condition (the gate), the last replica standing loses records. The only ISR member commits alone,
    crashes, loses its unflushed tail and is elected again. The followers then truncate to its log.
    While the HWM may not advance, replicas that left the ISR hold all committed records and stay electable: they are
    the ELR. A proposed member does not count, because the controller may refuse it. Older brokers have no gate.
    """
    counted = leader.view.isr if m.on("hwm_gate_is_committed_isr") else m.maximal_isr(leader)
    is_open = under("hwm_needs_min_isr", gate_is_open(size(counted), m.min_isr_in(leader.view)))
    return is_open | is_the(b, m.p.ungated_broker)


def least_leo(m: Cluster, b: Number, leader: StructValue) -> Number:
    """B4. The smallest LEO over the leader and all replicas that its HWM waits for.

    A follower's LEO is its last fetch offset; it is 0 if the follower has not fetched.
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
    """B4, B7. The replicas that the HWM waits for: the maximal ISR.

    The controller may accept and elect a proposed member before the leader learns of it.
    """
    isr: SetValue = m.maximal_isr(leader) if m.on("hwm_over_maximal_isr") else leader.view.isr
    if not m.on("hwm_waits_for_leaving"):
        isr = where(leader.proposed.is_some, isr & leader.proposed.value, isr)
    return isr


def is_caught_up(leader: StructValue, f: Number) -> Truth:
    """K3. True if replica ``f``, in the ISR or not, is caught up and eligible; the HWM then waits for it.

    Otherwise, under steady writes, the HWM would stay ahead of a replica that is about to join the ISR, and the replica
    would never join. An ineligible replica must not hold up the HWM.
    """
    known, view = leader.followers[f], leader.view
    eligible = view.active.has(f) & (known.broker_epoch == view.epochs[f])
    return known.caught_up & eligible & known.leo.is_some & view.replicas.has(f)
