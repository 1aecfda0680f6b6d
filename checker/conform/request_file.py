"""Files from which one difference from Kafka can be repeated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from highwater.checker.base.files import read_text
from highwater.checker.base.problems import InputError, InternalError
from highwater.checker.conform.bridge import Bridge, NoAnswerError
from highwater.checker.conform.kafka_request import ANSWER_FIELDS
from highwater.checker.conform.results import lines_of_answer, side_by_side
from highwater.checker.conform.walks import WALK_FORMAT, WalkFile, repeated_walk

FORMAT = "highwater-conform-request-1"


class ExpectedOutcome(msgspec.Struct, forbid_unknown_fields=True):
    """The error that the model expects, and the observation that it expects after the request.

    ``answer`` has a bit for each of ANSWER_FIELDS; None: not compared.
    """

    error: str
    after: dict[str, int | None]
    answer: int | None = None


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


def answer_text(answer: int | None) -> str:
    """The fields of an answer that are true, as text."""
    return ", ".join(name for bit, name in enumerate(ANSWER_FIELDS) if (answer or 0) >> bit & 1) or "-"


def repeated(place: Path, file: RequestFile | WalkFile, bridge: Bridge) -> tuple[bool, list[str]]:
    """Send the request or the walk of a file to Kafka's code again. Raises InputError if this is not possible.

    ``place`` is the file's path. Returns a pair: True if Kafka now answers as the file expects; and the expected
    answer and Kafka's answer as lines of text.
    """
    try:
        if isinstance(file, WalkFile):
            return repeated_walk(file, bridge)
        answer = bridge.ask({"explain": {"scenario": file.scenario, "path": file.path, "op": file.request}})
    except NoAnswerError as wrong:
        return False, [f"  {wrong}"]
    except InternalError as wrong:
        raise InputError(f"{place}: the request cannot be repeated: {wrong}") from None
    names = {code: name for name, code in bridge.errors.items()}
    outcomes = [file.expected, *file.or_expected]
    seen = answer["after"]
    for outcome in outcomes:
        if seen and (missing := sorted(outcome.after.keys() - seen.keys())):
            raise InputError(f"{place}: expected.after: the bridge observes no field {missing[0]!r}")
    kafka = {"error": names[answer["error"]], "answer": answer_text(answer["answer"]), **seen}
    rows, *others = [
        {
            "error": outcome.error,
            "answer": kafka["answer"] if outcome.answer is None else answer_text(outcome.answer),
            **outcome.after,
        }
        for outcome in outcomes
    ]
    same = any(row.items() <= kafka.items() for row in others)
    differing = {} if same else {n: v for n, v in rows.items() if kafka.get(n, v) != v}
    shown = differing or {
        n: v for n, v in rows.items() if n == "error" or (n in kafka and n.split("[")[0] in file.fields)
    }
    lines = [
        *_steps(file),
        *side_by_side(shown, kafka, ("expected", "Kafka")),
        *lines_of_answer(answer),
    ]
    return not differing, lines


def _steps(file: RequestFile) -> list[str]:
    steps = [f"  {n}. {json.dumps(op)}" for n, op in enumerate(file.path, 1)]
    return [*steps, f"  then: {json.dumps(file.request)}"]
