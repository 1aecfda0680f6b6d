"""What a request and its response have to hold, field by field: asked of a line that could not be read, to say why."""

from __future__ import annotations

from typing import Any

from highwater.traces.reading.errors import TraceError, printable
from highwater.traces.reading.fields import INT32, INT64
from highwater.traces.requests.forms import MAX_PARTITIONS
from highwater.traces.requests.lines import Plain, RequestLine

_ID, _EPOCH, _OFFSET = (-1, INT32), (-1, INT64), (-1, INT64)
_TOPIC = {"topicId": str}
SHAPES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "_fetch": (
        {
            "replicaState": {"replicaId": _ID, "replicaEpoch": _EPOCH},
            "sessionId": _ID,
            "sessionEpoch": _ID,
            "topics": [
                {
                    **_TOPIC,
                    "partitions": [
                        {
                            "partition": _ID,
                            "currentLeaderEpoch": _ID,
                            "fetchOffset": _OFFSET,
                            "lastFetchedEpoch": _ID,
                        }
                    ],
                }
            ],
            "forgottenTopicsData": [{**_TOPIC, "partitions": [_ID]}],
        },
        {
            "errorCode": _ID,
            "sessionId": _ID,
            "responses": [
                {
                    **_TOPIC,
                    "partitions": [
                        {
                            "partitionIndex": _ID,
                            "errorCode": _ID,
                            "highWatermark": _OFFSET,
                            "recordsSizeInBytes": _ID,
                            "divergingEpoch?": {"epoch": _ID, "endOffset": _OFFSET},
                        }
                    ],
                }
            ],
        },
    ),
    "_produce": (
        {"acks": _ID},
        {
            "responses?": [
                {**_TOPIC, "partitionResponses": [{"index": _ID, "errorCode": _ID, "baseOffset": _OFFSET}]}
            ]
        },
    ),
    "_alter": (
        {
            "brokerId": _ID,
            "brokerEpoch": _EPOCH,
            "topics": [
                {
                    **_TOPIC,
                    "partitions": [
                        {
                            "partitionIndex": _ID,
                            "leaderEpoch": _ID,
                            "partitionEpoch": _ID,
                            "newIsrWithEpochs": [{"brokerId": _ID, "brokerEpoch": _EPOCH}],
                        }
                    ],
                }
            ],
        },
        {
            "errorCode": _ID,
            "topics": [
                {
                    **_TOPIC,
                    "partitions": [
                        {
                            "partitionIndex": _ID,
                            "errorCode": _ID,
                            "leaderId": _ID,
                            "leaderEpoch": _ID,
                            "isr": [_ID],
                            "partitionEpoch": _ID,
                        }
                    ],
                }
            ],
        },
    ),
    "_registered": ({"brokerId": _ID}, {"errorCode": _ID, "brokerEpoch": _EPOCH}),
    "_heartbeat": (
        {"brokerId": _ID, "brokerEpoch": _EPOCH, "currentMetadataOffset": _OFFSET},
        {"errorCode": _ID, "isFenced": bool, "shouldShutDown": bool},
    ),
}  # fmt: skip
"""The fields of the present versions with their types: asked only where a line could not be read, to say why."""


def check(line: RequestLine, said: Plain, shapes: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Raise TraceError where a request or its response is not of these shapes: file, line, field."""
    for name, value, shape in (("request", said.request, shapes[0]), ("response", said.response, shapes[1])):
        wrong = _mismatch(value, shape, name)
        if wrong is not None:
            raise TraceError(line.path, line.line, *wrong)


_OLD = frozenset({"topicId", "replicaState", "newIsrWithEpochs", "lastFetchedEpoch", "forgottenTopicsData"})
"""Fields in whose place older versions have others, or none."""


def _mismatch(value: Any, shape: Any, path: str) -> tuple[str, str] | None:
    """The path of the first field that is not as it has to be, and what is wrong with it."""
    if isinstance(shape, tuple):
        low, high = shape
        if isinstance(value, bool) or not isinstance(value, int):
            return path, f"expected a whole number, not {printable(value, 40)}"
        return None if low <= value <= high else (path, f"{printable(value, 40)} is outside {low}..{high}")
    if isinstance(shape, type):
        return None if isinstance(value, shape) else (path, f"expected {shape.__name__}")
    if isinstance(shape, list):
        if not isinstance(value, list):
            return path, "expected a list"
        if len(value) > MAX_PARTITIONS:
            return path, f"more than {MAX_PARTITIONS} items"
        parts = ((item, shape[0], f"{path}[{i}]") for i, item in enumerate(value))
    else:
        if not isinstance(value, dict):
            return path, "expected an object"
        missing = next((n for n in shape if n not in value and n not in _OLD and not n.endswith("?")), None)
        if missing is not None:
            return f"{path}.{missing}", "missing"
        parts = (
            (value[n.rstrip("?")], inner, f"{path}.{n.rstrip('?')}")
            for n, inner in shape.items()
            if value.get(n.rstrip("?")) is not None or not (n.endswith("?") or n in _OLD)
        )
    return next((wrong for part in parts if (wrong := _mismatch(*part)) is not None), None)
