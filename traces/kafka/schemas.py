"""The records of Kafka's metadata log as tables: names, numbers, versions, fields and their types.

The tables cover Apache Kafka 2.8 to 4.x (metadata records and the control records of KRaft), in a notation of their
own. A field has its name in JSON, a type, and the first version that has it. A tagged field also has its tag number
and the default value that is omitted.

Types: ``bool int8 int16 uint16 int32 int64 float64 uuid string bytes``, a tuple of fields for a structure, and
``ArrayOf(type)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ArrayOf:
    """The type of a list whose elements have one type."""

    of: Type


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record, in every version from ``since`` on. ``tag`` is None if the field is not tagged.

    ``nullable`` fields may be null. A tagged field with the value ``default`` is not written. ``defined`` has the
    valid values, ascending; None means that every value of the type is valid.
    """

    name: str
    type: Type
    since: int = 0
    tag: int | None = None
    default: Any = None
    nullable: bool = False
    defined: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class Schema:
    """A record type. ``key`` is its API key, or the type of a control record; versions are 0 to ``latest``."""

    name: str
    key: int
    latest: int
    fields: tuple[Field, ...] = ()


Type = str | tuple[Field, ...] | ArrayOf

F = Field


def _endpoints(*more: Field) -> ArrayOf:
    return ArrayOf((F("name", "string"), F("host", "string"), F("port", "uint16"), *more))


SUPPORTED = (F("minSupportedVersion", "int16"), F("maxSupportedVersion", "int16"))
FEATURES = ArrayOf((F("name", "string"), *SUPPORTED))
BROKERS = ArrayOf("int32")
DIRECTORIES = ArrayOf("uuid")
MEMBER = (F("id", "int32"), F("epoch", "int64"))
SECURE = F("securityProtocol", "int16")


RESOURCES = (2, 4, 8, 16, 32)
"""The resource types that have settings: topic, broker or cluster default, broker loggers, client metrics, group."""
_INT16, _INT32 = 1 << 15, 1 << 31


def _change(name: str, tag: int, since: int = 0, of: ArrayOf = BROKERS) -> Field:
    """A tagged list field; null means that the list did not change."""
    return F(name, of, since, tag, None, nullable=True)


# fmt: off
METADATA = (
    Schema("REGISTER_BROKER_RECORD", 0, 4, (
        F("brokerId", "int32", defined=range(_INT32)),
        F("isMigratingZkBroker", "bool", since=2),
        F("incarnationId", "uuid"),
        F("brokerEpoch", "int64"),
        F("endPoints", _endpoints(SECURE)),
        F("features", FEATURES),
        F("rack", "string", nullable=True),
        F("fenced", "bool"),
        F("inControlledShutdown", "bool", since=1),
        F("logDirs", DIRECTORIES, since=3, tag=0, default=[]),
        _change("cordonedLogDirs", 1, since=4, of=DIRECTORIES),
    )),
    Schema("UNREGISTER_BROKER_RECORD", 1, 0, (F("brokerId", "int32"), F("brokerEpoch", "int64"))),
    Schema("TOPIC_RECORD", 2, 0, (F("name", "string"), F("topicId", "uuid"))),
    Schema("PARTITION_RECORD", 3, 2, (
        F("partitionId", "int32"),
        F("topicId", "uuid"),
        F("replicas", BROKERS),
        F("isr", BROKERS),
        F("removingReplicas", BROKERS),
        F("addingReplicas", BROKERS),
        F("leader", "int32", defined=range(-1, _INT32)),
        F("leaderRecoveryState", "int8", tag=0, default=0, defined=range(2)),
        F("leaderEpoch", "int32"),
        F("partitionEpoch", "int32"),
        F("directories", DIRECTORIES, since=1),
        _change("eligibleLeaderReplicas", 1, since=2),
        _change("lastKnownElr", 2, since=2),
    )),
    Schema("CONFIG_RECORD", 4, 0, (
        F("resourceType", "int8", defined=RESOURCES),
        F("resourceName", "string"),
        F("name", "string"),
        F("value", "string", nullable=True),
    )),
    Schema("PARTITION_CHANGE_RECORD", 5, 2, (
        F("partitionId", "int32"),
        F("topicId", "uuid"),
        _change("isr", 0),
        F("leader", "int32", tag=1, default=-2, defined=range(-2, _INT32)),
        _change("replicas", 2),
        _change("removingReplicas", 3),
        _change("addingReplicas", 4),
        F("leaderRecoveryState", "int8", tag=5, default=-1, defined=range(-1, 2)),
        _change("directories", 8, since=1, of=DIRECTORIES),
        _change("eligibleLeaderReplicas", 6, since=2),
        _change("lastKnownElr", 7, since=2),
    )),
    Schema("FENCE_BROKER_RECORD", 7, 0, MEMBER),
    Schema("UNFENCE_BROKER_RECORD", 8, 0, MEMBER),
    Schema("REMOVE_TOPIC_RECORD", 9, 0, (F("topicId", "uuid"),)),
    Schema("DELEGATION_TOKEN_RECORD", 10, 0, (
        F("owner", "string"),
        F("requester", "string"),
        F("renewers", ArrayOf("string")),
        F("issueTimestamp", "int64"),
        F("maxTimestamp", "int64"),
        F("expirationTimestamp", "int64"),
        F("tokenId", "string"),
    )),
    Schema("USER_SCRAM_CREDENTIAL_RECORD", 11, 0, (
        F("name", "string"),
        F("mechanism", "int8"),
        F("salt", "bytes"),
        F("storedKey", "bytes"),
        F("serverKey", "bytes"),
        F("iterations", "int32"),
    )),
    Schema("FEATURE_LEVEL_RECORD", 12, 0, (
        F("name", "string"), F("featureLevel", "int16", defined=range(_INT16)),
    )),
    Schema("CLIENT_QUOTA_RECORD", 14, 0, (
        F("entity", ArrayOf((F("entityType", "string"), F("entityName", "string", nullable=True)))),
        F("key", "string"),
        F("value", "float64"),
        F("remove", "bool"),
    )),
    Schema("PRODUCER_IDS_RECORD", 15, 0, (
        F("brokerId", "int32"), F("brokerEpoch", "int64"), F("nextProducerId", "int64"),
    )),
    Schema("BROKER_REGISTRATION_CHANGE_RECORD", 17, 3, (
        F("brokerId", "int32"),
        F("brokerEpoch", "int64"),
        F("fenced", "int8", tag=0, default=0, defined=range(-1, 2)),
        F("inControlledShutdown", "int8", since=1, tag=1, default=0, defined=range(2)),
        F("logDirs", DIRECTORIES, since=2, tag=2, default=[]),
        _change("cordonedLogDirs", 3, since=3, of=DIRECTORIES),
    )),
    Schema("ACCESS_CONTROL_ENTRY_RECORD", 18, 0, (
        F("id", "uuid"),
        F("resourceType", "int8"),
        F("resourceName", "string"),
        F("patternType", "int8"),
        F("principal", "string"),
        F("host", "string"),
        F("operation", "int8"),
        F("permissionType", "int8"),
    )),
    Schema("REMOVE_ACCESS_CONTROL_ENTRY_RECORD", 19, 0, (F("id", "uuid"),)),
    Schema("NO_OP_RECORD", 20, 0),
    Schema("ZK_MIGRATION_STATE_RECORD", 21, 0, (F("zkMigrationState", "int8"),)),
    Schema("REMOVE_USER_SCRAM_CREDENTIAL_RECORD", 22, 0, (F("name", "string"), F("mechanism", "int8"))),
    Schema("BEGIN_TRANSACTION_RECORD", 23, 0, (F("name", "string", tag=0, nullable=True),)),
    Schema("END_TRANSACTION_RECORD", 24, 0),
    Schema("ABORT_TRANSACTION_RECORD", 25, 0, (F("reason", "string", tag=0, nullable=True),)),
    Schema("REMOVE_DELEGATION_TOKEN_RECORD", 26, 0, (F("tokenId", "string"),)),
    Schema("REGISTER_CONTROLLER_RECORD", 27, 0, (
        F("controllerId", "int32"),
        F("incarnationId", "uuid"),
        F("zkMigrationReady", "bool"),
        F("endPoints", _endpoints(SECURE)),
        F("features", FEATURES),
    )),
    Schema("CLEAR_ELR_RECORD", 28, 0, (F("topicName", "string"),)),
    Schema("UNREGISTER_CONTROLLER_RECORD", 29, 0, (F("controllerId", "int32"),)),
)
# fmt: on
"""The metadata records, in the order of their API keys. No release wrote keys 6, 13 and 16."""

_VOTERS = ArrayOf((F("voterId", "int32"), F("voterDirectoryId", "uuid", since=1)))

# fmt: off
CONTROL = (
    Schema("LEADER_CHANGE", 2, 1, (
        F("version", "int16"),
        F("leaderId", "int32"),
        F("voters", _VOTERS),
        F("grantingVoters", _VOTERS),
    )),
    Schema("SNAPSHOT_HEADER", 3, 0, (F("version", "int16"), F("lastContainedLogTimestamp", "int64"))),
    Schema("SNAPSHOT_FOOTER", 4, 0, (F("version", "int16"),)),
    Schema("KRAFT_VERSION", 5, 0, (F("version", "int16"), F("kRaftVersion", "int16"))),
    Schema("KRAFT_VOTERS", 6, 0, (
        F("version", "int16"),
        F("voters", ArrayOf((
            F("voterId", "int32"),
            F("voterDirectoryId", "uuid"),
            F("endpoints", _endpoints()),
            F("kRaftVersionFeature", SUPPORTED),
        ))),
    )),
)
# fmt: on
"""The control records of a KRaft log. The first field of each is its version."""
