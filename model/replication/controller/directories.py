"""Log directories (KIP-858), as far as they decide who can lead and who is in the ISR."""

from __future__ import annotations

from highwater.model.language import Enum
from highwater.model.language.checks import Checks
from highwater.model.language.values import ArrayValue, Number, StructValue, Truth
from highwater.model.replication.controller.partition_change import partition_change
from highwater.model.replication.controller.situation import Situation
from highwater.model.replication.controller.types import Error, Terms

Directory = Enum("Directory", "NAMED UNASSIGNED LOST MIGRATING")
"""The directory of a replica in metadata: a named one, or one of the names that stand for none."""


def is_online(directory: Number, listed: Truth, lists_any: Truth) -> Truth:
    """858.1. Whether a replica's directory is online, as far as its broker's registration says.

    ``listed``: the registration lists it; ``lists_any``: it lists one at all, which old ones do not.
    """
    unknown = (directory == Directory.UNASSIGNED) | (directory == Directory.MIGRATING)
    return unknown | ((directory == Directory.NAMED) & (listed | ~lists_any))


def names_default(listed: Number) -> Truth:
    """858.1. Whether a new replica's directory is known from the start: where its broker has just one."""
    return listed == 1


def assignment_checks(
    registrations: ArrayValue,
    broker: Number,
    broker_epoch: Number,
    topic_known: Truth | bool,
    partition_known: Truth | bool,
    is_replica: Truth | bool,
) -> Checks:
    """858.1. Whether a broker can say in which directory its replica is."""
    checks, registration = Checks(Error.NONE), registrations[broker]
    checks.check(
        "the broker epoch is the registered one",
        registration.registered & (registration.epoch == broker_epoch),
        Error.STALE_BROKER_EPOCH,
    )
    checks.check("the topic exists", topic_known, Error.UNKNOWN_TOPIC_ID)
    checks.check("the partition exists", partition_known, Error.UNKNOWN_TOPIC_OR_PARTITION)
    checks.check("the broker has a replica", is_replica, Error.NOT_LEADER_OR_FOLLOWER)
    return checks


def assign_directory(t: Terms, now: Situation, changes: Truth | bool) -> StructValue:
    """858.1. The record of an assignment; ``changes``: the replica was not in that directory before.

    With ``assignment_empties_elr`` it is built as if ELR were off.
    """
    terms = t.without_elr() if t.on("assignment_empties_elr") else t
    return partition_change(terms, now, assigns=changes)
