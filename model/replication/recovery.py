"""Unclean recovery: the controller asks replicas for their logs and elects by what they say (966.14)."""

from __future__ import annotations

from typing import Any

from highwater.model.language import (
    Array,
    Option,
    State,
    Struct,
    action,
    all_of,
    any_of,
    require,
    spend,
    where,
)
from highwater.model.language.values import Number, StructValue, Truth
from highwater.model.replication import logs
from highwater.model.replication.clients import Clients
from highwater.model.replication.controller import unclean_recovery


class Recovery(Clients):
    """Actions of an unclean recovery. GetReplicaLogInfo requests are implied: the controller asks until it is told."""

    def define(self) -> Struct:
        """What replicas say of their logs: under way, and collected. Nothing of it is in the metadata log."""
        state = super().define()
        if not self.p.recovery:
            return state
        self.log_info = Struct(
            "ReplicaLogInfo",
            broker_epoch=self.fetch_state.fields["broker_epoch"],
            leader_epoch=self.leader_epoch,
            last_epoch=self.some_epoch,
            end=self.offset,
        )
        infos = Array(self.broker, Option(self.log_info))
        return Struct("State", **state.fields, log_infos_sent=infos, log_infos=infos)

    def initial(self) -> list[dict[str, Any]]:
        """Nothing is asked at first."""
        states = super().initial()
        if self.p.recovery:
            for state in states:
                state["log_infos_sent"] = state["log_infos"] = [None] * self.p.brokers
        return states

    def recovers(self, s: State) -> Truth:
        """966.13, 966.16. Whether the partition is in unclean recovery; unclean election enabled means Aggressive."""
        possible = unclean_recovery.may_recover(
            self.t, s.partition, s.registrations, bool(self.p.unclean_election)
        )
        return possible & s.elr_enabled if self.p.downgrades else possible

    @action("966.14", rule="unclean_recovery", says="broker {b} tells the controller of its log", b="broker")
    def send_log_info(self, s: State, b: Number) -> None:
        """The answer to GetReplicaLogInfo: last written leader epoch, log end, broker epoch and leader epoch."""
        if not self._possible(s):
            return
        broker = s.brokers[b]
        asked = self.recovers(s) | (s.partition.leader.is_none & (s.budgets.elections > 0))
        require("the partition is in unclean recovery, or can be on request", asked)
        require("the broker is a replica that runs", self.is_up(broker) & s.partition.replicas.has(b))
        require("no answer is under way", s.log_infos_sent[b].is_none)
        require("the controller lacks it", ~self.has_answered(s, b))
        s.next.log_infos_sent[b] = self.log_info(
            broker_epoch=broker.epoch,
            leader_epoch=broker.view.leader_epoch,
            last_epoch=logs.last_epoch(self.some_epoch, broker.log),
            end=broker.log.length,
        )

    @action("966.14", rule="unclean_recovery", says="the controller learns of broker {b}'s log", b="broker")
    def take_log_info(self, s: State, b: Number) -> None:
        """What carries another broker epoch or leader epoch is dropped, and asked again."""
        if not self._possible(s):
            return
        sent = s.log_infos_sent[b]
        require("an answer is under way", sent.is_some)
        info, counts = sent.value, s.partition.leader.is_none
        if self.on("recovery_epoch_check"):
            counts = counts & (info.broker_epoch == s.registrations[b].epoch)
            counts = counts & (info.leader_epoch == s.partition.leader_epoch)
        option = s.log_infos.type.element
        s.next.log_infos[b] = where(counts, option.some(info), s.log_infos[b])
        s.next.log_infos_sent[b] = None

    @action("966.14", rule="unclean_recovery", says="the controller elects broker {b} by its log", b="broker")
    def finish_recovery(self, s: State, b: Number) -> None:
        """Balanced waits until every last known ELR member has answered; Aggressive for the first answer."""
        if not self._possible(s):
            return
        require("the partition is in unclean recovery", self.recovers(s))
        self.elect_longest_log(s, b, balanced=not self.p.unclean_election)

    @action(
        "966.17",
        rule="unclean_recovery",
        says="the operator has broker {b} elected by its log (balanced: {balanced})",
        b="broker",
        balanced="balanced",
    )
    def elect_by_log(self, s: State, b: Number, balanced: bool) -> None:
        """LONGEST_LOG_BALANCED and LONGEST_LOG_AGGRESSIVE: a recovery on request, where there is no leader."""
        if not self._possible(s):
            return
        spend(s, "elections")
        require("there is no leader", s.partition.leader.is_none)
        self.elect_longest_log(s, b, balanced)

    balanced = (True, False)

    def elect_longest_log(self, s: State, b: Number, balanced: bool) -> None:
        """966.14. The highest last written leader epoch wins, then the longest log, among those that answered."""
        require("the winner has answered", self.has_answered(s, b))
        if balanced:
            awaited = s.partition.last_known_elr
            require(
                "every last known ELR member has answered",
                all_of(~awaited.has(r) | self.has_answered(s, r) for r in self.broker),
            )
        mine = s.log_infos[b].value
        require(
            "no answer is better",
            ~any_of(self.has_answered(s, r) & self._better(s.log_infos[r].value, mine) for r in self.broker),
        )
        require("the winner is live", self.t.active(s.registrations).has(b))
        self.append(s, unclean_recovery.recover(self.t, s.partition, s.registrations, b, self.min_isr(s)))
        for r in self.broker:
            s.next.log_infos[r] = None

    def has_answered(self, s: State, b: Number) -> Truth:
        """Whether the controller knows a broker's log, as its present incarnation has it."""
        info = s.log_infos[b]
        if not self.on("recovery_answers_expire"):
            return info.is_some
        return info.is_some & (info.value.broker_epoch == s.registrations[b].epoch)

    def _better(self, theirs: StructValue, mine: StructValue) -> Truth:
        epoch, own = theirs.last_epoch, mine.last_epoch
        newer = epoch.is_some & (own.is_none | (epoch.value > own.value))
        return newer | ((epoch == own) & (theirs.end > mine.end))

    @action("966.14", says="the controller fails over")
    def fail_over(self, s: State) -> None:
        """What is not in the metadata log is gone: an unclean recovery starts anew."""
        spend(s, "failovers")
        if not self._possible(s):
            return
        require("something is forgotten", any_of(s.log_infos[b].is_some for b in self.broker))
        for b in self.broker:
            s.next.log_infos[b] = None

    def _possible(self, s: State) -> bool:
        if not self.p.recovery:
            require("the scenario has unclean recovery", False)
        return bool(self.p.recovery)


__all__ = ["Recovery"]
