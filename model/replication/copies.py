"""AlterPartitions that are taken by who their leader does not wait for: late, or by a controller that was replaced.

A leader waits for one answer (B7). What it has given up can still arrive at the controller, and what it has sent can
arrive at a controller that is none any more. Epochs in the request, and the metadata log, have to see to it that
neither makes the leader believe what is not so.
"""

from __future__ import annotations

from highwater.model.language import Number, State, action, require, spend
from highwater.model.replication.cluster import Cluster, Outcome
from highwater.model.replication.control import (
    answer_to,
    decide_alter_partition,
    send_alter_answer,
    write_record,
)  # fmt: skip
from highwater.model.replication.controller.partition_change import is_empty_record, merge


@action("B8, F1", says="the controller takes an AlterPartition that broker {b} has given up", b="broker")
def handle_late_proposal(m: Cluster, s: State, b: Number) -> None:
    """It waited on a connection that is gone, beside what the leader has sent since. Its answer reaches nobody.

    The checks are those of any request. A proposal from before the last change of the partition has its epoch (B8).
    """
    require("an AlterPartition can be late", bool(m.p.late_proposals))
    late = s.late_proposals[b]
    require("one that was given up is under way", late.is_some)
    _, record = decide_alter_partition(m, s, b, late.value, s.partition, s.registrations)
    write_record(m, s, record)
    s.next.late_proposals[b] = None


@action("B8", says="another controller is elected; the controller before it does not know")
def replace_controller(m: Cluster, s: State) -> None:
    """What the former one knows is what it knew: nothing that it decides comes into the metadata log any more."""
    require("a former controller can answer", bool(m.p.former_controller))
    require("there is none yet", s.former.is_none)
    spend(s, "failovers")
    s.next.former = m.former_controller(partition=s.partition, registrations=s.registrations)


@action("B8", says="the former controller takes broker {b}'s AlterPartition", b="broker")
def answer_from_old_state(m: Cluster, s: State, b: Number) -> None:
    """It refuses at once, by what it knew. What it would change waits for the metadata log, and is never answered.

    An answer before that would take a member out of the leader's ISR that the real controller elects. It answers once
    for each failover: a leader that gets nowhere looks for the controller anew.
    """
    require("a former controller can answer", bool(m.p.former_controller))
    require("there is one", s.former.is_some)
    require("a request is under way", s.alter_requests[b].is_some)
    require("no answer is under way", s.alter_responses[b].is_none)
    sent, former = s.alter_requests[b].value, s.former.value
    error, record = decide_alter_partition(m, s, b, sent, former.partition, former.registrations)
    s.next.alter_requests[b] = None
    s.next.former = None
    answer = answer_to(m, sent, error, merge(m.t, former.partition, record))
    if m.on("answers_are_committed"):
        changes = ~is_empty_record(m.t, record)
        require("it refuses, or nothing is to be changed", ~changes | (answer.outcome != Outcome.COMMITTED))
    send_alter_answer(m, s, b, sent, answer)
