"""``--junit`` writes a difference as a Java test, which compiles, and fails while Kafka differs."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from highwater.checker.conform.bridge import Jars
from highwater.checker.conform.junit import junit_test
from highwater.checker.conform.request_file import ExpectedOutcome, RequestFile
from tests.conform.test_conform import SMALL, run
from tests.slow import slow

SETUP = {"brokers": 2, "minIsr": 1, "unclean": False, "elr": 1, "partitions": [[0, 1]]}
JUNIT = {
    "Test": "import java.lang.annotation.*; @Retention(RetentionPolicy.RUNTIME) public @interface Test { }",
    "Assertions": """public class Assertions {
        public static void assertEquals(int wanted, int seen, String said) { assertTrue(wanted == seen, said); }
        public static void assertEquals(Object wanted, Object seen, String said) {
            assertTrue(wanted.equals(seen), said);
        }
        public static void assertTrue(boolean condition, String said) {
            if (!condition) throw new AssertionError(said);
        }
    }""",
}
"""Stubs of the JUnit classes that the tests use."""
RUN = """public class Run {
    public static void main(String[] names) throws Exception {
        for (String name : names) {
            Class<?> type = Class.forName("org.apache.kafka.controller." + name);
            for (var method : type.getMethods()) {
                if (method.isAnnotationPresent(org.junit.jupiter.api.Test.class)) {
                    try {
                        method.invoke(type.getDeclaredConstructor().newInstance());
                        System.out.println(name + " passes");
                    } catch (java.lang.reflect.InvocationTargetException wrong) {
                        System.out.println(name + " fails: " + wrong.getCause().getMessage());
                    }
                }
            }
        }
        System.exit(0);
    }
}"""


@slow("compiles the tests, where the fast test of bad input reads the options")
def test_a_test_of_a_difference_compiles_and_fails_until_kafka_answers(kafka: Path, tmp_path: Path) -> None:
    sources, saved = tmp_path / "sources", tmp_path / "differences"
    sources.mkdir()
    rule = ("--rule", "assignment_empties_elr=off", "--quiet", "--save", str(saved))
    status, _, said = run(kafka, tmp_path, SMALL, *rule, "--junit", str(sources / "DifferentTest.java"))
    assert (status, said.count("as a Java test")) == (1, 1), said
    file = saved / "difference-1.json"
    content = json.loads(file.read_text())
    both = {"name": "brokerHeartbeat", "broker": 0, "losesDirectory": True}
    for name, change in {
        "SameTest": {"partition.elr": 0, "elr_entries[0]": 0},
        "OtherTest": {"partition.leader": 1},
    }.items():
        content["expected"]["after"] |= change
        file.write_text(json.dumps(content))
        status, _, said = run(
            kafka, tmp_path, "--request", str(file), "--junit", str(sources / f"{name}.java")
        )
        assert status == (0 if name == "SameTest" else 1), said
    two = {**content, "path": [], "request": both, "or_expected": [content["expected"]] * 2}
    file.write_text(json.dumps(two))
    run(kafka, tmp_path, "--request", str(file), "--junit", str(sources / "HeartbeatTest.java"))
    said = _run(kafka, sources, ["DifferentTest", "SameTest", "OtherTest", "HeartbeatTest"])
    different, same, other, heartbeat = said.splitlines()
    assert different == "DifferentTest fails: partition.elr"
    assert same == "SameTest passes"
    assert other == "OtherTest fails: partition.leader"
    assert heartbeat.startswith('HeartbeatTest fails: NONE {"partition.leader":1,')


def _run(kafka: Path, sources: Path, names: list[str]) -> str:
    """Compile the tests with a stub of JUnit and the bridge beside them, and run them. Returns a line for each."""
    jars = Jars.found(kafka)
    bridge, classes = sources / "highwater-bridge.jar", sources / "classes"
    (sources / "Run.java").write_text(RUN)
    for name, text in JUNIT.items():
        (sources / f"{name}.java").write_text(f"package org.junit.jupiter.api; {text}")
    class_path = os.pathsep.join([str(classes), str(bridge), *jars.class_path])
    files = [str(file) for file in sorted(sources.glob("*.java"))]
    subprocess.run(["javac", "-Werror", "-cp", class_path, "-d", str(classes), *files], check=True)
    done = subprocess.run(
        ["java", "-cp", class_path, "Run", *names], capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("difference.java", [SMALL], "name it as a Java test, such as DirectoryTest.java"),
        ("DifferenceTest.txt", [SMALL], "name it as a Java test"),
        ("DifferenceTest.java", ["replication/small-messages"], "a walk of a whole cluster"),
        ("DifferenceTest.java", [SMALL, "--counterexamples"], "not a counterexample"),
    ],
)
def test_a_test_that_cannot_be_written_is_one_line(
    kafka: Path, tmp_path: Path, name: str, arguments: list[str], said: str
) -> None:
    status, _, output = run(kafka, tmp_path, *arguments, "--quiet", "--junit", str(tmp_path / name))
    assert (status, said in output, output.count("\n")) == (2, True, 1), output
    assert not (tmp_path / name).exists()


def test_text_of_a_file_stays_within_its_literals() -> None:
    """A quote, a backslash and a line break in a file do not end a Java literal."""
    expected = ExpectedOutcome("NONE", {'x"\n*/': 0})
    request = {"name": "failover", "note": 'a"""\\\n'}
    text = junit_test("OddTest", RequestFile("", SETUP, [], request, expected, []))
    assert '"note": "a\\\\"\\\\"\\\\"\\\\\\\\\\\\n"' in text
    assert 'after.get("x\\"\\n*/").intValue(), "x\\"\\n*/");' in text
