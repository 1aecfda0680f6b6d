"""Each result names its schema version, and a schema changes only together with its version."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from highwater.model.versions import SCHEMAS, versions
from tests.checker.conftest import ROOT, Write
from tests.checker.schema import form_problems
from tests.command import highwater
from tests.fuzzing import samples
from tests.generation.incident import write_incident

FILES = {
    "result": "checker/report/result.schema.json",
    "proof": "checker/report/proof.schema.json",
    "gate": "checker/comparing/gate/gate.schema.json",
    "mutation": "checker/comparing/mutation.schema.json",
    "report": "traces/reports/report.schema.json",
    "incidents": "checker/follow/incidents.schema.json",
    "plan": "checker/plan/plan.schema.json",
}
DIGESTS = {
    "result": "d7b1ccc9cf03f49b",
    "proof": "d7d94d024e5b6308",
    "gate": "c81beb9f8e3c5345",
    "mutation": "8ed77a04788119fd",
    "report": "5cf01ed8444cd501",
    "incidents": "60e6a556c5e56365",
    "plan": "55a301f24030ee6a",
}
"""Schema → digest, descriptions left out.

If a digest differs, the schema changed. If readers must change too, raise its version in
``highwater.model.versions``. Then write the new digest here.
"""


def told_left_out(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            k: told_left_out(v) for k, v in schema.items() if not (k == "description" and isinstance(v, str))
        }
    return [told_left_out(item) for item in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize("form", FILES)
def test_a_form_is_not_changed_without_its_number(form: str) -> None:
    schema = json.loads((ROOT / FILES[form]).read_text())
    content = json.dumps([SCHEMAS[form], told_left_out(schema)], sort_keys=True)
    assert hashlib.sha256(content.encode()).hexdigest()[:16] == DIGESTS[form]


@pytest.mark.parametrize("form", FILES)
def test_a_schema_asks_for_its_own_number(form: str) -> None:
    text = (ROOT / FILES[form]).read_text()
    assert text.count(f'"schema": {{"enum": ["{versions(form)["schema"]}"]}}') == 1


def test_every_schema_version_is_documented() -> None:
    page = (ROOT / "docs" / "results.md").read_text()
    assert [form for form in SCHEMAS if f"`{versions(form)['schema']}`" not in page] == []


@pytest.fixture(scope="module", autouse=True)
def _in_forks() -> None:
    """Gate and mutate start new processes here, so all that they send must be picklable."""


COMMANDS = {
    "result": ["check", "{}", "--engine", "interpreter"],
    "proof": ["prove", "{}", "--depth", "2"],
    "difference": ["diff", "{}", "--rule", "wraps=on"],
    "tables": ["states", "{}", "--engine", "interpreter", "--out", "tables"],
    "gate": ["gate", "--update", "{}", "--baseline", "gate.toml", "--workers", "1"],
    "mutation": ["mutate", "{}", "--only", "increase", "--workers", "1"],
}


@pytest.mark.parametrize("form", COMMANDS)
def test_every_result_names_its_form(counter: Write, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = counter("[parameters]\ntop = 3\n")
    monkeypatch.chdir(path.parent)
    run = highwater(*(part.format(path.name) for part in COMMANDS[form]), "--quiet", "--json", "found.json")
    assert run.status in (0, 1, 3), run
    found = json.loads((path.parent / "found.json").read_text())
    for result in found if isinstance(found, list) else [found]:
        assert (
            result["versions"].items()
            >= {**versions(form), "schema": f"highwater-{form}-{SCHEMAS[form]}"}.items()
        )


def test_so_does_a_report(tmp_path: Path) -> None:
    log = samples.write(tmp_path / "samples")["metadata segment"]
    (report,) = highwater("replay", log, "--json", "-").results
    assert report["versions"]["schema"] == f"highwater-report-{SCHEMAS['report']}"
    assert report["versions"]["highwater"] == versions("report")["highwater"]


@pytest.mark.parametrize(
    ("until", "actions"),
    [("09:13", ["--roll", "all"]), ("09:26", ["--set", "min.insync.replicas=1"]), ("09:26", ["--kill", "2"])],
)
def test_so_does_the_answer_about_a_plan(tmp_path: Path, until: str, actions: list[str]) -> None:
    write_incident(tmp_path, until)
    run = highwater("plan", tmp_path, *actions, "--quiet", "--json", tmp_path / "found.json")
    assert run.status in (0, 1), run
    found = json.loads((tmp_path / "found.json").read_text())
    assert form_problems(found, FILES["plan"]) == []
    assert found["versions"].items() >= versions("plan").items()
