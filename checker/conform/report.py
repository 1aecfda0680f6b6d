"""A comparison with Kafka as text and as JSON, and the files from which one difference can be repeated."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from highwater.checker.base.files import read_text
from highwater.checker.base.problems import InputError, InternalError
from highwater.checker.base.text import columns, paragraph, width
from highwater.checker.conform.bridge import Bridge
from highwater.checker.conform.comparison import ConformResult, KafkaComparison, KafkaDifference
from highwater.checker.conform.expectation import Traced, trace
from highwater.checker.conform.kafka_request import NO_ACTION
from highwater.checker.conform.walks import WALK_FORMAT, WalkFile, repeated_walk
from highwater.model.language.graph import values_of
from highwater.model.language.interpreter import interpreter_of
from highwater.model.replication.controller.types import Error

FORMAT = "highwater-conform-request-1"
_ACTIONS, _NO_ACTION, _TWO_EVENTS, _TOGETHER = (
    "requests that stand for an action of the model, with Kafka's answers",
    "other requests",
    "heartbeats that also report a failed directory, by their other flags",
    "of these, Kafka decides both events on the state before, as in neither order",
)
"""Titles of the groups of compared requests."""


class ExpectedOutcome(msgspec.Struct, forbid_unknown_fields=True):
    """The error that the model expects, and the observation that it expects after the request."""

    error: str
    after: dict[str, int | None]


class RequestFile(msgspec.Struct, forbid_unknown_fields=True):
    """The content of a file from which a difference can be repeated: a path, a request, and the expected outcome."""

    format: str
    scenario: dict[str, Any]
    path: list[dict[str, Any]]
    request: dict[str, Any]
    expected: ExpectedOutcome
    fields: list[str]
    or_expected: list[ExpectedOutcome] = []
    """For a request with two events: the outcomes of the second order, and of both decided on the state before."""


def of_json(
    comparison: KafkaComparison, result: ConformResult, examples: list[dict[str, Any]]
) -> dict[str, Any]:
    """The counts and differences of a comparison, as plain data. ``examples`` are results of ``example``."""
    return {
        "states": result.states,
        "transitions": result.transitions,
        "steps_cut_at_a_bound": result.cut,
        "requests": result.requests,
        "not_compared": dict(sorted(result.not_compared.items())),
        "outcomes": [
            {"request": kind, "error": error, "changes": changes, "count": count}
            for (kind, error, changes), count in sorted(result.outcomes.items())
        ],
        "differences": [
            {"request": kind, "differs": list(fields), "count": count}
            for (kind, fields), count in result.differences.most_common()
        ],
        "decided_together": [
            {"request": kind, "differs": list(fields), "count": count}
            for (kind, fields), count in sorted(result.decided_together.items())
        ],
        "examples": examples,
        "stopped_by": result.stopped_by,
        "seconds": round(result.seconds, 3),
    }


def lines_of(name: str, result: ConformResult, version: str) -> Iterator[str]:
    """The paragraphs of a summary: a headline, the compared requests by kind, and what was not compared or differs."""
    count = sum(result.differences.values())
    verdict = f"{count:,} DIFFERENCES" if count else "no difference"
    rate = result.requests / result.seconds if result.seconds else 0
    yield paragraph(
        f"{name}: {verdict} from Kafka {version} in {result.states:,} states, {result.transitions:,} transitions, "
        f"{result.requests:,} requests ({rate:,.0f}/s)"
    )
    kinds: dict[str, Counter[str]] = {}
    for (kind, error, changes), number in result.outcomes.items():
        outcome = error if error != "NONE" else "carried out" if changes else "changes nothing"
        kinds.setdefault(kind, Counter())[outcome] += number
    groups: dict[str, list[tuple[str, str]]] = {title: [] for title in (_ACTIONS, _NO_ACTION, _TWO_EVENTS)}
    for kind, outcomes in sorted(kinds.items()):
        parts = ", ".join(f"{outcome} {number:,}" for outcome, number in outcomes.most_common())
        name, _, more = kind.partition(" ")
        title = _ACTIONS if not more else _NO_ACTION if more == NO_ACTION else _TWO_EVENTS
        groups[title].append((_flags(more) if title is _TWO_EVENTS else name, parts))
    together = Counter[str]()
    for (kind, _), number in result.decided_together.items():
        together[_flags(kind.partition(" ")[2])] += number
    groups[_TOGETHER] = [(flags, f"{number:,}") for flags, number in together.most_common()]
    for title, rows in groups.items():
        if rows:
            yield paragraph(f"  {title}:")
            yield from columns(rows, "    ", width())
    if result.cut:
        yield f"  transitions that cross a bound of the scenario, compared too: {result.cut:,}"
    if result.not_compared:
        left = sum(result.not_compared.values())
        yield paragraph(
            f"  not compared: {left:,} requests that cannot be sent, or that the model does not describe"
        )
    for (kind, fields), number in result.differences.most_common():
        yield paragraph(f"  differs: {kind}: {', '.join(fields)}: {number:,}")


def _flags(said: str) -> str:
    return said.removesuffix("losesDirectory").rstrip("+") or "none"


# --- one difference ---------------------------------------------------------------------------------------------


def example(comparison: KafkaComparison, difference: KafkaDifference, bridge: Bridge) -> dict[str, Any]:
    """A difference as plain data: path, request, answers of the model and of Kafka, guards that refuse the action."""
    operations = [comparison.requests[n].operation for n in difference.path]
    request = None if difference.request is None else comparison.requests[difference.request]
    operation = {"name": "failover"} if request is None else request.operation
    request_line = {"scenario": comparison.setup, "path": operations, "op": operation}
    answer = bridge.ask({"explain": request_line})
    names = {code: name for name, code in bridge.errors.items()}
    fields = [f.name for f in comparison.expectation.observations.fields]
    seen = dict(zip(fields, answer["before" if request is None else "after"], strict=True))
    state = comparison.graph.scalars(difference.state)
    found: dict[str, Any] = {
        "path": operations,
        "sentences": _sentences(comparison, difference),
        "request": operation if request else None,
        "kind": request.kind if request else "the state",
        "differs": list(difference.kinds),
    }
    if request is None:
        expected = comparison.expectation.observations.unpack(
            comparison.expectation.now(comparison.graph.states[[difference.state]])[0]
        )
        differing = [name for name in fields if expected[name] != seen[name]]
        found["model"] = {"state": {name: expected[name] for name in differing}}
        found["kafka"] = {"state": {name: seen[name] for name in differing}}
        return found | {"all": expected, "seen": seen}
    (error, after), *others = [_evaluated(one, state) for one in trace(comparison.model, request)]
    differing = [name for name in fields if after[name] != seen[name]]
    found["model"] = {"error": error, "after": {name: after[name] for name in differing}}
    found["refused_by"] = _guards(comparison, difference, state)
    found["kafka"] = {
        "error": names[answer["error"]],
        "after": {name: seen[name] for name in differing},
        "records": answer["records"],
        **{k: answer[k] for k in ("exception", "message") if k in answer},
    }
    return found | {"all": after, "seen": seen, "others": others}


def _evaluated(one: Traced, state: tuple[int, ...]) -> tuple[str, dict[str, Any]]:
    values = values_of([one.error, *(node for _, node in one.after)], state)
    fields = [name for name, _ in one.after]
    return list(Error.members)[values[0]], {n: int(v) for n, v in zip(fields, values[1:], strict=True)}


def _guards(comparison: KafkaComparison, difference: KafkaDifference, state: tuple[int, ...]) -> list[str]:
    assert difference.request is not None
    numbers = [n for n, request in enumerate(comparison.request_of) if request == difference.request]
    interpreter = interpreter_of(comparison.model)
    return [g for n in numbers[:1] for g in interpreter.refusals(state, comparison.model.instances[n])]


def _sentences(comparison: KafkaComparison, difference: KafkaDifference) -> list[str]:
    by_request = {int(r): n for n, r in reversed(list(enumerate(comparison.request_of)))}
    instances = comparison.model.instances
    return [instances[by_request[n]].sentence or str(instances[by_request[n]]) for n in difference.path]


def lines_of_difference(found: dict[str, Any]) -> Iterator[str]:
    """The lines about a difference (from ``example``): the path, the request, and both answers side by side."""
    yield ""
    yield paragraph(f"{found['kind']}: the model and Kafka differ in {', '.join(found['differs'])}")
    for number, sentence in enumerate(found["sentences"], 1):
        yield paragraph(f"  {number}. {sentence}")
    if found["request"] is None:
        yield "  after these steps:"
        yield from _side_by_side(found["model"]["state"], found["kafka"]["state"])
        return
    yield f"  then: {json.dumps(found['request'])}"
    rows = {"error": found["model"]["error"], **found["model"]["after"]}
    yield from _side_by_side(rows, {"error": found["kafka"]["error"], **found["kafka"]["after"]})
    if found["refused_by"]:
        yield paragraph(f"  the model's action is refused by: {'; '.join(found['refused_by'])}")
    if "message" in found["kafka"]:
        yield f"  Kafka throws {found['kafka']['exception']}: {found['kafka']['message']}"
    for record in found["kafka"]["records"]:
        yield f"  Kafka writes {record['type']} {json.dumps(record['data'])}"


def _side_by_side(model: dict[str, Any], kafka: dict[str, Any], title: str = "model") -> Iterator[str]:
    longest = max(map(len, model), default=0)
    yield f"    {'':{longest}}  {title:>22}  {'Kafka':>22}"
    for name, value in model.items():
        yield f"    {name:{longest}}  {value!s:>22}  {kafka[name]!s:>22}"


# --- files that repeat a difference ---------------------------------------------------------------------------


def request_file(comparison: KafkaComparison, found: dict[str, Any]) -> RequestFile:
    """The content of a file from which this difference can be repeated. ``found`` is the result of ``example``."""
    model = found["model"]
    return RequestFile(
        FORMAT,
        comparison.setup,
        found["path"],
        found["request"] or {"name": "failover"},
        ExpectedOutcome(model.get("error", "NONE"), found["all"]),
        list(found["differs"]),
        [ExpectedOutcome(*other) for other in found.get("others", ())],
    )


def read_request_file(path: Path) -> RequestFile | WalkFile:
    """Read a file from which a difference can be repeated. Raises InputError if it is invalid."""
    text = read_text(path)
    try:
        walks = f'"{WALK_FORMAT}"' in text
        found = (
            msgspec.json.decode(text, type=WalkFile) if walks else msgspec.json.decode(text, type=RequestFile)
        )
    except (msgspec.DecodeError, RecursionError) as wrong:
        raise InputError(f"{path}: no request of conform: {wrong}") from None
    if found.format not in (FORMAT, WALK_FORMAT):
        raise InputError(f"{path}: format {found.format!r}, not {FORMAT!r}")
    return found


def repeated(place: Path, file: RequestFile | WalkFile, bridge: Bridge) -> tuple[bool, list[str]]:
    """Send the request or the walk of a file to Kafka's code again. Raises InputError if this is not possible.

    ``place`` is the file's path. Returns a pair: True if Kafka now answers as the file expects; and the expected
    answer and Kafka's answer as lines of text.
    """
    try:
        if isinstance(file, WalkFile):
            return repeated_walk(file, bridge)
        answer = bridge.ask({"explain": {"scenario": file.scenario, "path": file.path, "op": file.request}})
    except InternalError as wrong:
        raise InputError(f"{place}: the request cannot be repeated: {wrong}") from None
    names = {code: name for name, code in bridge.errors.items()}
    outcomes = [file.expected, *file.or_expected]
    for outcome in outcomes:
        if len(outcome.after) != len(answer["after"]):
            raise InputError(
                f"{place}: expected.after has {len(outcome.after)} fields, and the bridge sees {len(answer['after'])}"
            )
    kafka = {
        "error": names[answer["error"]],
        **dict(zip(file.expected.after, answer["after"], strict=True)),
    }
    rows, *others = [{"error": outcome.error, **outcome.after} for outcome in outcomes]
    differing = {} if kafka in others else {n: v for n, v in rows.items() if kafka[n] != v}
    shown = differing or {n: v for n, v in rows.items() if n == "error" or n.split("[")[0] in file.fields}
    lines = [
        *(f"  {n}. {json.dumps(op)}" for n, op in enumerate(file.path, 1)),
        f"  then: {json.dumps(file.request)}",
        *_side_by_side(shown, kafka, "expected"),
    ]
    if "message" in answer:
        lines.append(f"  Kafka throws {answer['exception']}: {answer['message']}")
    lines += [f"  Kafka writes {r['type']} {json.dumps(r['data'])}" for r in answer["records"]]
    return not differing, lines
