"""A difference as a JUnit 5 test for Kafka's sources, in the package of Kafka's control managers.

The test sends the path and the request through the bridge, so the bridge's classes are written beside it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NoReturn

from highwater.checker.base.files import JsonOutput, write_text, written
from highwater.checker.base.problems import InputError
from highwater.checker.conform.request_file import ExpectedOutcome, RequestFile
from highwater.checker.conform.walks import WalkFile

_NAME = re.compile(r"[A-Z][A-Za-z0-9]*Test")
_TEST = '''\
package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.common.protocol.Errors;
import org.junit.jupiter.api.Test;

import static org.junit.jupiter.api.Assertions.{assertion};

/**
 * A request on which Kafka and the model of Highwater differ, written by highwater conform --junit.
 *
 * <p>Compile and run it with Kafka's jars, JUnit 5, and highwater-bridge.jar. The numbers of replicas and brokers in
 * sets are written as bits.
 */
public class {name} {{
    @Test
    public void testAnswer() throws Exception {{
        JsonNode answer = Bridge.explained("""
            {{
              "scenario": {scenario},
              "path": [{path}],
              "op": {request}
            }}""");
        String error = Errors.forCode(answer.get("error").shortValue()).name();
        JsonNode after = answer.get("after");
{checks}
    }}
}}
'''


class JunitFile:
    """The Java test of ``--junit``. Raises InputError if the file's name cannot be the name of a Java test."""

    def __init__(self, target: Path, output: JsonOutput) -> None:
        if target.suffix != ".java" or not _NAME.fullmatch(target.stem):
            raise InputError(f"--junit {target}: name it as a Java test, such as DirectoryTest.java")
        self.target, self.output, self.written = target, output, False

    def refuse_walks(self) -> NoReturn:
        """Raise InputError: a Java test runs the control managers, without brokers."""
        raise InputError("--junit: the control managers alone cannot repeat a walk of a whole cluster")

    def write_bridge(self, classes: bytes) -> None:
        """Write the jar that the test needs, if a test is written."""
        if self.written:
            with written("--junit", self.target.with_name("highwater-bridge.jar")) as beside:
                beside.write_bytes(classes)

    def write(self, file: RequestFile | WalkFile) -> None:
        """Write a test of this difference, if none is written yet. Raises InputError for a walk of a whole cluster."""
        if isinstance(file, WalkFile):
            self.refuse_walks()
        elif not self.written:
            write_text("--junit", self.target, junit_test(self.target.stem, file))
            self.output.say(f"  as a Java test: {self.target}")
            self.written = True


def junit_test(name: str, file: RequestFile) -> str:
    """The Java source of a class with one test, which fails if Kafka does not answer as the file expects."""
    outcomes = [file.expected, *file.or_expected]
    alone = len(outcomes) == 1
    checks = _fields(file.expected) if alone else _any_of(outcomes)
    steps = "".join(f"\n                {_text(op)}," for op in file.path)
    return _TEST.format(
        name=name,
        scenario=_text(file.scenario),
        path=steps[:-1],
        request=_text(file.request),
        assertion="assertEquals" if alone else "assertTrue",
        checks="\n".join(f"        {line}" for line in checks),
    )


def _text(value: object) -> str:
    """A value as JSON, escaped for a Java text block."""
    return json.dumps(value).replace("\\", "\\\\")


def _fields(outcome: ExpectedOutcome) -> list[str]:
    lines = [f'assertEquals({json.dumps(outcome.error)}, error, "error");']
    for field, value in outcome.after.items():
        if value is not None:
            name = json.dumps(field)
            lines.append(f"assertEquals({value}, after.get({name}).intValue(), {name});")
    return lines


def _any_of(outcomes: list[ExpectedOutcome]) -> list[str]:
    """The lines that check the answer to a request with two events, for which each of ``outcomes`` is allowed."""
    lines = ["var json = new com.fasterxml.jackson.databind.ObjectMapper();"]
    for number, one in enumerate(outcomes):
        state = json.dumps(json.dumps(one.after))
        fits = f"error.equals({json.dumps(one.error)}) && after.equals(json.readTree({state}))"
        lines.append(f"boolean fits{number} = {fits};")
    allowed = " || ".join(f"fits{number}" for number in range(len(outcomes)))
    return [*lines, f'assertTrue({allowed}, error + " " + after);']
