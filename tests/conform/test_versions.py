"""The bridge fits each release of Kafka, by the classes that it has. It is compiled once for the same API."""

from __future__ import annotations

import subprocess
from pathlib import Path
from zipfile import ZipFile

import pytest

from docs.pages.releases import PROFILES
from highwater.checker.base.problems import InputError, InternalError
from highwater.checker.conform import bridge as bridges
from highwater.checker.conform.bridge import Bridge, Jars, Jdk, compiled
from highwater.checker.conform.class_files import ClassFile, ClassPath
from highwater.checker.conform.sources import adapted, missing
from tests import kafka_release
from tests.conform.test_conform import SMALL, run
from tests.conform.test_walks import MESSAGES
from tests.slow import slow

BACK = "replication/controller/kafka-4.3-reassigned-back"
NOBODY = "replication/controller/kafka-4.1.0-nobody-remembered"
DIFFERS = {
    "4.0.2": ("kafka_4_1_0", "partition.last_known_leader"),
    "4.1.0": ("kafka_4_1", "partition.last_known_leader"),
    "4.2.1": ("kafka_4_3", "partition.elr"),
    "4.3.0": ("kafka_4_2", "partition.elr"),
}
"""By release, the profile of a neighbour, and a field in which that profile differs."""
API = """package org.apache.kafka.some;
public class Api { public static final int SIZE = 3; public void call(long to) {%s} }"""


@pytest.mark.parametrize("version", PROFILES)
@slow("fetches releases, and compiles the bridge against each")
def test_each_release_follows_its_profile(version: str, tmp_path: Path) -> None:
    place, profile = kafka_release.kafka(version), PROFILES[version]
    small = (SMALL, BACK, *[NOBODY] * version.startswith("4.1"), "--sample", "150", "--quiet")
    status, _, said = run(place, tmp_path, *small, "--profile", profile)
    assert status == 3, said
    on_brokers = {"4.0.0": "kafka_4_0_0"}.get(version, profile)
    status, _, said = run(place, tmp_path, MESSAGES, "--profile", on_brokers, "--sample", "40", "--quiet")
    assert status == 3, said
    if version in DIFFERS:
        other, field = DIFFERS[version]
        _, found, said = run(place, tmp_path, *small, "--profile", other)
        assert field in {f for s in found["scenarios"] for d in s["differences"] for f in d["differs"]}, said


def classes_of(tmp_path: Path, **sources: str) -> ClassPath:
    """A class path with these classes, compiled."""
    for name, text in sources.items():
        (tmp_path / f"{name}.java").write_text(text)
    target = tmp_path / "classes"
    files = [str(tmp_path / f"{name}.java") for name in sources]
    subprocess.run(["javac", "-d", str(target), *files], check=True)
    return ClassPath([target])


SOURCE = """import org.apache.kafka.gone.Api;
//# if org.apache.kafka.some.Api
class One {
    //# if org.apache.kafka.some.Api.call(int)
    int wrong;
    //# else
    int right;
    //# end
    //# if org.apache.kafka.some.Api.call(long)
    int also;
    //# end
}
//# else
class None { }
//# end
"""


@pytest.mark.usefixtures("kafka")
def test_alternatives_are_chosen_by_what_the_classes_have(tmp_path: Path) -> None:
    classes = classes_of(tmp_path, Api=API % "")
    source = tmp_path / "Source.java"
    source.write_text(SOURCE)
    text = adapted([source], classes)["Source.java"]
    assert " ".join(text.split()) == "import org.apache.kafka.some.Api; class One { int right; int also; }"
    assert text.count("\n") == SOURCE.count("\n")
    source.write_text("//# if org.apache.kafka.other.Gone\nx\n//# else\ny\n//# end\n")
    assert adapted([source], classes)["Source.java"].split() == ["y"]
    for wrong in ("//# else", "//# end", "//# elif a.B", "//# if lower"):
        source.write_text(wrong)
        with pytest.raises(InternalError, match="//#"):
            adapted([source], classes)


@pytest.mark.usefixtures("kafka")
def test_the_api_of_a_class_is_what_a_program_links_to(tmp_path: Path) -> None:
    """Code and private members do not count; a constant, a parameter and a superclass do."""
    changes = {
        "int i = 0;": True,
        "} private void more() {": True,
        "} public void more() {": False,
        "} public static final long MORE = 1L << 40; static {": False,
    }
    names = ["org/apache/kafka/some/Api"]
    usual = classes_of(tmp_path, Api=API % "").api(names)
    for number, (body, same) in enumerate(changes.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert (classes_of(folder, Api=API % body).api(names) == usual) is same, body
    for old, new in (("= 3", "= 4"), ("long to", "int to"), ("class Api", "class Api extends Thread")):
        folder = tmp_path / new
        folder.mkdir()
        assert classes_of(folder, Api=(API % "").replace(old, new)).api(names) != usual, new


def test_a_damaged_class_is_one_error(tmp_path: Path) -> None:
    for content in (b"", b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbe\0\0\0\x3d\0\5\x63"):
        with pytest.raises(ValueError, match="no class file"):
            ClassFile.of(content)
    with ZipFile(tmp_path / "a.jar", "w") as jar:
        jar.writestr("some/Api.class", b"none")
    with pytest.raises(InputError, match=r"a\.jar: some/Api\.class cannot be read"):
        ClassPath([tmp_path / "a.jar"]).get("some/Api")


@slow("compiles the bridge against changed jars")
def test_classes_with_the_same_api_need_no_other_compilation(
    kafka: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed class before the jars is used by the compiled bridge; another API compiles it again."""
    Bridge(Jars.found(kafka)).__enter__().__exit__(None, None, None)
    calls = []
    compiler = bridges._compile
    monkeypatch.setattr(bridges, "_compile", lambda *given: calls.append(1) or compiler(*given))
    jar = next((kafka / "libs").glob("kafka-metadata-*.jar"))
    name = "org/apache/kafka/controller/BrokersToElrs.class"
    changed = tmp_path / name
    changed.parent.mkdir(parents=True)
    content = ZipFile(jar).read(name)
    changed.write_bytes(content)
    compiled(Jars.found(kafka, [tmp_path]), Jdk.found())
    assert not calls
    changed.write_bytes(content.replace(b"partitionsWithBrokerInElr", b"partitionsWithBrokerInElx"))
    with pytest.raises(InputError, match="no method partitionsWithBrokerInElr"):
        compiled(Jars.found(kafka, [tmp_path]), Jdk.found())
    assert calls == [1]


def test_another_api_is_one_sentence() -> None:
    said = """/tmp/x/Bridge.java:2: error: method call in class Api cannot be applied to given types;
        api.call(1);
  required: long,boolean
  found:    int
1 error"""
    assert missing(said, {"Bridge.java": "\n  api.call(1);\n"}) == (
        "this Kafka has another API: method call in class Api cannot be applied to given types; "
        "(it takes long,boolean); Versions.java needs an alternative for Bridge.java:2, `api.call(1);`"
    )
    assert missing("no memory", {}) == "the bridge does not compile: no memory"
