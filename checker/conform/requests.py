"""The requests and events of Kafka's controller, each as an operation of the bridge and as the model's expectation.

An expectation is a function in the model's language. It calls the model's handlers and actions, writes the state after
the request, and returns the error for the sender. This module adds no rule to the model's.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from highwater.checker.base.problems import InputError
from highwater.checker.conform import refusals
from highwater.checker.conform.kafka_request import (
    ExpectedAnswer,
    KafkaRequest,
    Operation,
    plain_key,
)
from highwater.model.language import (
    Bool,
    Number,
    SeqValue,
    State,
    StructValue,
    Truth,
    as_bool,
    cases,
    when,
    where,
)
from highwater.model.language.protocol import Protocol
from highwater.model.replication.controller import Controller, handlers, registrations
from highwater.model.replication.controller.types import (
    BrokerState,
    ControllerTypes,
    ElectionType,
    Error,
    Handled,
    LeaderRecoveryState,
)
from highwater.model.replication.topic.protocol import Topic

Place = int | None
"""A partition of a topic; None if the protocol has only one."""

MIN_ISR, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"

_WRITTEN = frozenset({
    "something changes in each that is written", "the partition that has the broker in the ISR comes first",
})  # fmt: skip
"""Guards of a topic's ``register_in_part`` that limit the choice of the partitions whose changes are written."""


def requests_of(protocol: Protocol) -> list[KafkaRequest]:
    """All requests of a protocol. Raises InputError unless the protocol is a ``Controller``."""
    if not isinstance(protocol, Controller):
        raise InputError(
            "conform compares scenarios of replication, replication.controller and replication.topic, "
            f"not of {protocol.name}"
        )
    return list(_Table(protocol).rows())


def setup_of(protocol: Controller) -> dict[str, Any]:
    """The bridge's settings for a controller in the protocol's initial state."""
    (initial,) = protocol.initial()
    partitions = [initial["partition"], *([initial["second"]["partition"]] if "second" in initial else [])]
    return {
        "brokers": protocol.p.brokers,
        "minIsr": initial["min_insync_replicas"],
        "unclean": initial["unclean_election"],
        "elr": int(initial.get("elr_on", protocol.on("eligible_leader_replicas"))),
        "partitions": [partition["replicas"] for partition in partitions],
    }


Task = Callable[..., Handled]
_TASKS: dict[str, Task] = {
    "PREFERRED": handlers.maybe_balance_leader,
    "UNCLEAN": handlers.maybe_elect_unclean_leader,
}
"""The model's periodic task for each election type."""


class _Table:
    """All requests of a protocol, made kind by kind. ``place`` is a partition's number in a topic, else None.

    An operation lacks fields such as epochs: the bridge adds their current values.
    """

    def __init__(self, protocol: Controller) -> None:
        self.p, self.t = protocol, protocol.t
        self.functions = {action.name: action.function for action in protocol.actions()}
        self.brokers = range(protocol.p.brokers)
        self.places: list[Place] = [0, 1] if isinstance(protocol, Topic) else [None]
        self.subsets = [[b for b in self.brokers if bits >> b & 1] for bits in range(1 << protocol.p.brokers)]

    def rows(self) -> Iterator[KafkaRequest]:
        """Yield all requests."""
        for place in self.places:
            yield from self.leader(place)
            yield from self.directories(place)
            yield from self.elections(place)
            yield from self.reassignments(place)
        yield from self.tasks()
        yield from self.sessions()
        yield from self.registering()
        yield from self.settings()
        yield from refusals.unknown_ids(self.brokers)
        yield refusals.deletion()

    # --- how a row is made ------------------------------------------------------------------------------

    def of_partition(
        self,
        place: Place,
        operation: Operation,
        handle: Callable[[Controller, Any], Handled],
        action: tuple[str, tuple[Any, ...]] | None = None,
        described: Callable[[Any], Truth] = lambda s: as_bool(True),
        **decision: Callable[[Any], Any],
    ) -> KafkaRequest:
        """A request about a partition. ``handle`` decides the answer.

        ``decision`` gives further fields of the model's ``Decision``, each as a function of the state.
        """

        def expect(p: Controller, state: State) -> ExpectedAnswer:
            views = p.views(state) if isinstance(p, Topic) else None
            s = state if views is None else views[place or 0]
            handled = handle(p, s)
            with when(handled.checks.passed):
                chosen = {name: value(s) for name, value in decision.items()}
                p.carry_out(s, replace(p.decision(s, handled.record), **chosen))
                if views is not None:
                    views[0].index.write(state)
            return ExpectedAnswer(handled.answer, described(s))

        named = {} if place is None else {"partition": place}
        key = None if action is None else (action[0], (*named.values(), *action[1]))
        return KafkaRequest({**operation, **named}, expect, key)

    def step(self, p: Controller, state: State, name: str, condition: Truth, **parameters: Any) -> None:
        """Apply the effect of the action ``name`` if the condition holds. The caller checks the action's guards."""
        with when(condition):
            self.functions[name](p, state, **parameters)

    def state_of(self, s: State, broker: int) -> StructValue:
        """The registration of the broker with this id."""
        registration: StructValue = s.registrations[self.t.broker.lift(broker)]
        return registration

    # --- the leader -------------------------------------------------------------------------------------

    def leader(self, place: Place) -> Iterator[KafkaRequest]:
        """AlterPartition requests for every ISR: as the leader would send them, and with one field that deviates."""
        for isr in self.subsets:
            op = {"name": "alterPartition", "newIsr": isr}
            yield self.alter(place, op, isr, action=("alter_partition", (tuple(isr), None)))
            for stale in isr:
                yield self.alter(
                    place,
                    {**op, "stale": stale},
                    isr,
                    stale,
                    action=("alter_partition", (tuple(isr), stale)),
                )
            for epoch, more in itertools.product(("leaderEpoch", "partitionEpoch", "brokerEpoch"), (-1, 1)):
                yield self.alter(place, {**op, f"{epoch}By": more}, isr, more={epoch: more})
            yield self.alter(place, {**op, "requestVersion": 2}, isr, version=2)
            yield self.alter(place, {**op, "leaderRecoveryState": "RECOVERING"}, isr, recovering=True)
            for sender in self.brokers:
                yield self.alter(place, {**op, "broker": sender}, isr, sender=sender)
            if isr:
                yield self.alter(place, {**op, "newIsr": [*isr, isr[0]]}, isr, doubled=True)

    def alter(
        self,
        place: Place,
        op: Operation,
        isr: list[int],
        stale: int | None = None,
        action: tuple[str, tuple[Any, ...]] | None = None,
        sender: int | None = None,
        more: dict[str, int] | None = None,
        version: int = 3,
        doubled: bool = False,
        recovering: bool = False,
    ) -> KafkaRequest:
        """An AlterPartition request that proposes ``isr``. Other arguments make it deviate from a leader's request.

        - ``stale``: a member that the request lists with its previous broker epoch
        - ``sender``: the broker that sends the request; None: the leader
        - ``more``: numbers added to the request's epochs, by key (``brokerEpoch``, ``leaderEpoch``, ``partitionEpoch``)
        - ``version``: below 3, the request has no broker epochs of members
        - ``doubled``: the request lists the first member twice
        - ``recovering``: the leader recovery state is RECOVERING
        """
        t, members, by = self.t, self.t.brokers.lift(isr), more or {}

        def proposal(p: Controller, s: Any) -> StructValue:
            made = p._proposal(s, members, p.stale_choice.lift(stale))
            first = made.new_isr.at(0)
            broker = made.broker if sender is None else t.broker.lift(sender)
            return t.alter_partition(
                version=version,
                broker=broker,
                broker_epoch=s.registrations[broker].epoch + by.get("brokerEpoch", 0),
                leader_epoch=made.leader_epoch + by.get("leaderEpoch", 0),
                partition_epoch=made.partition_epoch + by.get("partitionEpoch", 0),
                new_isr=self.without_epochs(made.new_isr)
                if version < 3
                else made.new_isr.append(first)
                if doubled
                else made.new_isr,
                leader_recovery_state=LeaderRecoveryState.RECOVERING
                if recovering
                else made.leader_recovery_state,
            )

        def described(s: Any) -> Truth:
            known: Truth = as_bool(True) if sender is not None else s.partition.leader.is_some
            return known if stale is None else known & (self.state_of(s, stale).epoch >= 1)

        def handle(p: Controller, s: Any) -> Handled:
            return handlers.alter_partition(p.context(s), proposal(p, s))

        return self.of_partition(place, op, handle, action, described)

    def without_epochs(self, members: SeqValue) -> SeqValue:
        """A proposed ISR without broker epochs, as AlterPartition version 2 has it."""
        bare = self.t.proposed_isr.zero()
        for position in range(self.t.replicas.maximum):
            member = self.t.isr_member(broker=members.at(position).broker, epoch=None)
            bare = where(members.length > position, bare.append(member), bare)
        return bare

    # --- log directories --------------------------------------------------------------------------------

    def directories(self, place: Place) -> Iterator[KafkaRequest]:
        """Events: a replica's directory fails, or the replica is assigned to another directory.

        In a topic there are none: the bridge has one directory per broker, which both partitions would share.
        """
        if place is not None:
            return
        for number in self.brokers:
            if self.p.on("offline_directory_check"):
                yield from self.directory(number)
            else:  # losing a directory has no effect
                op = {"name": "loseDirectory", "broker": number, "environment": True}
                yield KafkaRequest(op, lambda p, s: ExpectedAnswer(Error.NONE))

    def directory(self, number: int) -> Iterator[KafkaRequest]:
        """Events of the directory of a broker's replica: it fails, alone or in a heartbeat, or the replica moves."""
        broker, only = self.t.broker.lift(number), self.t.brokers.lift([number])

        def lose(p: Controller, before: State, s: State) -> ExpectedAnswer:
            record = registrations.remove(p.context(before), broker).record
            p.carry_out(s, replace(p.decision(s, record), offline=only))
            replica = p.assigned(before.partition).has(number) & ~before.partition.offline.has(number)
            return ExpectedAnswer(Error.NONE, self.state_of(before, number).registered & replica)

        def assign(p: Controller, s: Any) -> Handled:
            epoch = self.state_of(s, number).epoch
            return handlers.assign_directory(p.context(s), broker, epoch, changes=Bool.lift(True))

        op = {"broker": number, "environment": True}
        yield KafkaRequest(
            {"name": "loseDirectory", **op}, lambda p, s: lose(p, s, s), ("lose_directory", (number,))
        )
        for fence, stop, behind in itertools.product((False, True), repeat=3):
            heartbeat = self.heartbeat(number, fence, stop, behind)
            both = {**heartbeat.operation, "losesDirectory": True}
            yield KafkaRequest(both, heartbeat.expect, second=lose)
        yield self.of_partition(
            None,
            {"name": "assignDirectory", **op},
            assign,
            ("assign_directory", (number,)),
            online=lambda s: only,
        )

    # --- elections and reassignments ------------------------------------------------------------------------

    def elections(self, place: Place) -> Iterator[KafkaRequest]:
        """Elections of each type. In a topic, each request is also compared with the periodic task of one partition."""
        for kind in ("PREFERRED", "UNCLEAN"):
            election = getattr(ElectionType, kind)

            def elect(p: Controller, s: Any, election: Number = election) -> Handled:
                return handlers.elect_leader(p.context(s), election)

            op = {"name": "electLeaders", "type": kind}
            yield self.of_partition(place, op, elect, ("elect_leader", (kind,)))
            if place is not None:
                yield self.of_partition(place, op, elect, (_TASKS[kind].__name__, ()))

    def tasks(self) -> Iterator[KafkaRequest]:
        """The periodic tasks, each for all partitions together, and a failover to another controller."""
        failover = {"name": "failover", "environment": True}
        yield KafkaRequest(failover, lambda p, s: ExpectedAnswer(Error.NONE))
        for name, task in zip(
            ("maybeBalancePartitionLeaders", "maybeElectUncleanLeaders"), _TASKS.values(), strict=True
        ):

            def expect(p: Controller, state: State, task: Task = task) -> ExpectedAnswer:
                views = p.views_in_one_step(state) if isinstance(p, Topic) else None
                for s in views or [state]:
                    p.carry_out(s, p.decision(s, task(p.context(s)).record))
                if views is not None:
                    views[0].index.write(state)
                return ExpectedAnswer(Error.NONE)

            alone = self.places == [None]
            yield KafkaRequest({"name": name}, expect, (task.__name__, ()) if alone else None)

    def reassignments(self, place: Place) -> Iterator[KafkaRequest]:
        """Reassignments to every list of replicas, with and without permission to change their number; cancellation."""
        name = "alterPartitionReassignments"
        choices = [
            list(c)
            for size in range(len(self.brokers) + 1)
            for c in itertools.permutations(self.brokers, size)
        ]
        of_actions = {plain_key(target._plain()) for target in self.p.target_choice}
        for target, may in itertools.product([*choices, [0, 0]], (True, False)):

            def handle(p: Controller, s: Any, target: list[int] = target, may: bool = may) -> Handled:
                return handlers.reassign(p.context(s), self.t.replicas.lift(target), may)

            if len(target) > len(self.brokers):
                continue
            op = {"name": name, "replicas": target, "allowReplicationFactorChange": may}
            action = ("reassign", (tuple(target),)) if may and tuple(target) in of_actions else None
            yield self.of_partition(place, op, handle, action)
        yield self.of_partition(
            place,
            {"name": name, "replicas": None},
            lambda p, s: handlers.cancel_reassignment(p.context(s)),
            ("cancel_reassignment", ()),
        )

    # --- sessions ---------------------------------------------------------------------------------------

    def sessions(self) -> Iterator[KafkaRequest]:
        """Heartbeats with every combination of flags, from brokers caught up or behind; ends of sessions."""
        for broker in self.brokers:
            yield self.session_ends(broker, "fence", "fence_again")
            if self.p.on("fenced_broker_has_session"):
                yield self.session_ends(broker, "fence_again", "fence_again")
            for fence, stop, behind in itertools.product((False, True), repeat=3):
                yield self.heartbeat(broker, fence, stop, behind)
            usual = self.heartbeat(broker, False, False, False)
            yield from refusals.sessions(usual, self.session_ends(broker, "fence", "fence_again"))
            yield self.stale_heartbeat(broker)
            if self.p.p.leads_elsewhere:
                yield self.heartbeat(broker, False, True, False, elsewhere=True)

    def session_ends(self, number: int, name: str, other: str) -> KafkaRequest:
        """The end of a session, which fences the broker.

        If the broker is already fenced, the effect is that of action ``other``, if the rule
        ``fenced_broker_has_session`` is on.
        """
        broker = self.t.broker.lift(number)

        def expect(p: Controller, s: State) -> ExpectedAnswer:
            registration = self.state_of(s, number)
            fenced, registered = registration.fenced, registration.registered
            self.step(p, s, "fence", registered & ~fenced, broker=broker)
            if p.on("fenced_broker_has_session"):
                self.step(p, s, other, registered & fenced, broker=broker)
            return ExpectedAnswer(Error.NONE)

        return KafkaRequest(
            {"name": "fenceStaleBroker", "broker": number, "over": True}, expect, (name, (number,))
        )

    def stale_heartbeat(self, number: int) -> KafkaRequest:
        """A heartbeat with a broker epoch other than the registered one."""

        def expect(p: Controller, s: State) -> ExpectedAnswer:
            return ExpectedAnswer(Error.STALE_BROKER_EPOCH)

        return KafkaRequest({"name": "brokerHeartbeat", "broker": number, "brokerEpochBy": 1}, expect)

    def heartbeat(
        self, number: int, fence: bool, stop: bool, behind: bool, elsewhere: bool = False
    ) -> KafkaRequest:
        """A heartbeat in which the broker asks to be fenced (``fence``) or to shut down (``stop``).

        ``behind``: it has not replayed its registration. ``elsewhere``: it leads a partition outside the model.
        """
        action: tuple[str, tuple[Any, ...]] | None = None
        if not (fence or behind):
            starts = stop and (elsewhere or not self.p.p.leads_elsewhere)
            action = ("start_controlled_shutdown", (number,)) if starts else ("unfence", (number,))
            action = None if stop and not starts else action
        broker = self.t.broker.lift(number)

        def expect(p: Controller, s: State) -> ExpectedAnswer:
            registration = self.state_of(s, number)
            registered, fenced = registration.registered, registration.fenced
            own = self.leads(p, s, broker)
            leads = as_bool(True) if elsewhere else own
            stopping = ~fenced & registration.in_controlled_shutdown
            if p.p.resumed_shutdowns or p.p.failovers:  # a broker that leads may begin to shut down again
                stopping &= ~own
            others = self.others_active(s, number)
            states = {
                (was, leading, active): self.next_state(number, (fence, stop, behind), was, leading, active)
                for was in ("FENCED", "UNFENCED", "CONTROLLED_SHUTDOWN")
                for leading in (False, True)
                for active in (False, True)
            }

            def becomes(*wanted: str, of: tuple[str, ...]) -> Truth:
                found = as_bool(False)
                for (was, leading, active), state in states.items():
                    if was in of and state in wanted:
                        is_so = {"FENCED": fenced, "CONTROLLED_SHUTDOWN": stopping}.get(
                            was, ~fenced & ~stopping
                        )
                        found |= is_so & (leads if leading else ~leads) & (others if active else ~others)
                is_registered: Truth = found & registered
                return is_registered

            up = ("UNFENCED", "CONTROLLED_SHUTDOWN")
            self.step(p, s, "unfence", becomes("UNFENCED", of=("FENCED",)), broker=broker)
            self.step(p, s, "fence", becomes("FENCED", "SHUTDOWN_NOW", of=up), broker=broker)
            again = becomes("SHUTDOWN_NOW", of=("FENCED",))
            if p.on("fenced_broker_has_session"):
                self.step(p, s, "fence_again", again, broker=broker)
            starts = becomes("CONTROLLED_SHUTDOWN", of=("UNFENCED",))
            self.step(p, s, "start_controlled_shutdown", starts, broker=broker)
            # After a failover, or once the broker is unfenced, the controller no longer knows the offset of the
            # shutdown.
            forgets = p.p.failovers or p.p.resumed_shutdowns
            knows = ~stopping if forgets else as_bool(True)
            described = knows if p.on("fenced_broker_has_session") else knows & ~again
            error = where(registered, Error.NONE, Error.STALE_BROKER_EPOCH)
            all_ = ("FENCED", *up)
            says = (
                registered & (not behind),
                becomes("FENCED", "SHUTDOWN_NOW", of=all_),
                becomes("CONTROLLED_SHUTDOWN", of=all_),
                becomes("SHUTDOWN_NOW", of=all_),
            )
            return ExpectedAnswer(error, described, says)

        flags = {"wantFence": fence, "wantShutDown": stop, "behind": behind, "elsewhere": elsewhere}
        named = {name: True for name, value in flags.items() if value}
        return KafkaRequest({"name": "brokerHeartbeat", "broker": number, **named}, expect, action)

    def leads(self, p: Controller, s: State, broker: Number) -> Truth:
        """True if a broker leads one of the partitions that the bridge has."""
        views = p.views(s) if isinstance(p, Topic) else [s]
        found = as_bool(False)
        for view in views:
            found |= view.partition.leader.is_(broker)
        return found

    def others_active(self, s: State, number: int) -> Truth:
        """True if a broker other than this one is active."""
        others = self.t.active(s.registrations).without(self.t.broker.lift(number))
        found: Truth = ~others.is_empty
        return found

    def next_state(
        self, number: int, flags: tuple[bool, bool, bool], was: str, leads: bool, others: bool
    ) -> str:
        """The name of the broker state after a heartbeat, by the model's rule.

        It assumes that the controller knows no broker's metadata offset.
        ``flags``: the broker wants to be fenced, wants to shut down, has not replayed its registration. ``was`` is the
        broker's state before the heartbeat. ``leads``: it leads a partition. ``others``: another broker is active.
        """
        fence, stop, behind = flags
        t = ControllerTypes(len(self.brokers), self.p.rules_on)  # without bounds on offsets
        offset = t.offset
        some, none = t.session.fields["metadata_offset"].some(offset.lift(0)), None  # type: ignore[attr-defined]
        registered = t.registrations.lift(
            [
                {
                    "registered": True,
                    "epoch": 0,
                    "fenced": was == "FENCED" if b == number else not others,
                    "in_controlled_shutdown": b == number and was == "CONTROLLED_SHUTDOWN",
                }
                for b in self.brokers
            ]
        )
        shutting_down = [b == number and was == "CONTROLLED_SHUTDOWN" for b in self.brokers]
        sessions = t.sessions.lift(
            [
                t.session(
                    last_contact_ms=none,
                    metadata_offset=none,
                    controlled_shutdown_offset=some if is_stopping else none,
                    registration_offset=offset.lift(int(behind and b == number)),
                )
                for b, is_stopping in zip(self.brokers, shutting_down, strict=True)
            ]
        )
        request = t.heartbeat(
            broker=number,
            broker_epoch=0,
            current_metadata_offset=0,
            want_fence=fence,
            want_shut_down=stop,
        )
        found = registrations.next_broker_state(t, registered, sessions, request, as_bool(leads))
        return str(BrokerState.decode([found.node.value]))

    # --- registrations ----------------------------------------------------------------------------------

    def registering(self) -> Iterator[KafkaRequest]:
        """Registrations of brokers after clean and unclean stops, and removals of brokers.

        There are also registrations with an open session, written in part, repeated, and by old software.
        """
        for broker in self.brokers:
            for clean in (False, True):
                yield self.register(broker, clean)
                if self.p.on("registration_may_be_split"):
                    yield from self.register_in_part(broker, clean)
                yield self.register(broker, clean, live=True)
            yield self.register(broker, True, version=2)
            yield self.register(broker, False, knows_feature=False)
            stale = self.register(broker, False)
            op = {**stale.operation, "clean": True, "previousBrokerEpochBy": -1}
            yield replace(stale, operation=op, action=None)
            yield self.register_again(broker)
            if self.p.on("registration_leaves_isr"):
                unregister = self.unregister(broker)
                yield unregister
                yield refusals.after_unregistration(broker, unregister)

    def register(
        self, number: int, clean: bool, live: bool = False, version: int = 4, knows_feature: bool = True
    ) -> KafkaRequest:
        """The registration of a new incarnation. With ``live``, the session of the former incarnation is still open."""
        broker = self.t.broker.lift(number)
        usual = not live and version == 4 and knows_feature

        def expect(p: Controller, s: State) -> ExpectedAnswer:
            elr = p.elr_is_on(s)
            now = self.t.offset.lift(0)
            contact = self.t.session.fields["last_contact_ms"]
            session = self.t.session(
                last_contact_ms=contact.some(now) if live else None,  # type: ignore[attr-defined]
                metadata_offset=None,
                controlled_shutdown_offset=None,
                registration_offset=now,
            )
            checks = registrations.registration_checks(
                self.t,
                self.state_of(s, number),
                session,
                as_bool(False),
                registrations.Clock(now, now),
                ~elr if not knows_feature else True,
            )
            counts = clean and version >= 3
            self.step(p, s, "register", checks.passed, broker=broker, clean=Bool.lift(counts))
            return ExpectedAnswer(cases((checks.passed, Error.NONE), otherwise=checks.answer))

        op: Operation = {"name": "registerBroker", "broker": number, "clean": clean}
        op |= {"live": True} if live else {}
        op |= {"requestVersion": version} if version != 4 else {}
        op |= {} if knows_feature else {"elrFeatureSupported": False}
        return KafkaRequest(op, expect, ("register", (number, clean)) if usual else None)

    def register_in_part(self, number: int, clean: bool) -> Iterator[KafkaRequest]:
        """Registrations during which the controller fails: it writes partition changes, but no record of the broker."""
        op = {"name": "registerBroker", "broker": number, "clean": clean, "environment": True}
        choices: list[tuple[int, ...] | None] = [None]
        if isinstance(self.p, Topic):
            choices = list(self.p.written_choice)
        for written in choices:
            named = {} if written is None else {"written": written}

            def expect(p: Controller, s: State, named: dict[str, Any] = named) -> ExpectedAnswer:
                function = self.functions["register_in_part"]
                function(p, s, broker=self.t.broker.lift(number), clean=Bool.lift(clean), **named)
                return ExpectedAnswer(Error.NONE)

            key = ("register_in_part", (number, clean, *([written] if written else [])))
            yield KafkaRequest(
                {**op, "written": list(written or (0,))}, expect, key, _WRITTEN if written else frozenset()
            )

    def register_again(self, number: int) -> KafkaRequest:
        """Another registration of a broker's current incarnation. A broker that is not registered counts as new."""

        def expect(p: Controller, s: State) -> ExpectedAnswer:
            broker, gone = self.t.broker.lift(number), ~self.state_of(s, number).registered
            self.step(p, s, "register", gone, broker=broker, clean=Bool.lift(False))
            return ExpectedAnswer(Error.NONE)

        return KafkaRequest({"name": "registerBroker", "broker": number, "same": True}, expect)

    def unregister(self, number: int) -> KafkaRequest:
        """The operator's request to remove a broker."""

        def expect(p: Controller, s: State) -> ExpectedAnswer:
            registered = self.state_of(s, number).registered
            self.step(p, s, "unregister", registered, broker=self.t.broker.lift(number))
            return ExpectedAnswer(where(registered, Error.NONE, Error.BROKER_ID_NOT_REGISTERED))

        return KafkaRequest({"name": "unregisterBroker", "broker": number}, expect, ("unregister", (number,)))

    # --- settings ---------------------------------------------------------------------------------------

    def settings(self) -> Iterator[KafkaRequest]:
        """Changes of min.insync.replicas (also refused), unclean election, ELR level, first partition's replicas."""
        most = max(self.p.p.min_isr, self.p.p.max_min_isr)
        for value in range(1, most + 1):
            op = {"name": "changeMinIsr", "value": value}
            yield self.by_action(op, "change_min_isr", value=value)
        yield self.by_action(
            {
                "name": "incrementalAlterConfigs",
                "resourceType": "TOPIC",
                "key": UNCLEAN,
                "value": "true",
            },
            "enable_unclean_election",
        )
        if self.p.p.elr_changes:
            yield self.by_action({"name": "updateFeatures"}, "change_elr_level")
        for count in self.p.first_partition_choice:
            op = {"name": "putFirst", "count": count, "environment": True}
            yield self.by_action(op, "change_first_partition", count=count)
        yield self.refused_min_isr("BROKER", "0", "1")
        yield self.refused_min_isr("BROKER", "", None)
        yield self.refused_min_isr("TOPIC", None, "0")

    def by_action(self, op: Operation, name: str, **parameters: Any) -> KafkaRequest:
        """A request that the controller never refuses; its effect is that of the action ``name``."""

        def expect(p: Controller, s: State) -> ExpectedAnswer:
            self.functions[name](p, s, **parameters)
            return ExpectedAnswer(Error.NONE)

        return KafkaRequest(op, expect, (name, tuple(parameters.values())))

    def refused_min_isr(self, resource: str, name: str | None, value: str | None) -> KafkaRequest:
        """A change of min.insync.replicas that is refused while the ELR is on. Without the ELR, it is not compared."""
        of = handlers.Resource.TOPIC if resource == "TOPIC" else handlers.Resource.BROKER
        of = handlers.Resource.CLUSTER if name == "" else of

        def expect(p: Controller, s: State) -> ExpectedAnswer:
            t = self.t.under(self.t.rules)
            checks = handlers.min_isr_checks(t, of, as_bool(value is None), valid=resource != "TOPIC")
            described = p.elr_is_on(s)
            if name == "0":
                described &= self.state_of(s, 0).registered
            return ExpectedAnswer(cases((checks.passed, Error.NONE), otherwise=checks.answer), described)

        op = {"name": "incrementalAlterConfigs", "resourceType": resource, "key": MIN_ISR, "value": value}
        return KafkaRequest(op if name is None else {**op, "resource": name}, expect)
