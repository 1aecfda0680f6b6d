"""A run of ``highwater mutate`` that is told again from its JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.mutation.small import LAMP_WITH_INVARIANT, run


def test_a_run_is_told_again(register: Path, tmp_path: Path) -> None:
    """With reasons that were not there; the page has every hole, under its reason."""
    out, path, page = tmp_path / "out.json", tmp_path / "listed.toml", tmp_path / "mutants.md"
    assert run(register, "--json", out, "--markdown", page, "--quiet").exit_code == 1
    content = json.loads(out.read_text(encoding="utf-8"))
    holes = {m["within"] for m in content["mutants"] if m["verdict"] in ("within", "survived")}
    text = page.read_text(encoding="utf-8")
    assert all(f"`{within}` in" in text for within in holes)
    assert "| `no_acknowledged_write_is_lost` |" in text
    assert "## Listed" not in text
    path.write_text(
        "".join(f"[[listed]]\nwithin = '{w}'\nreason = 'as it is'\n" for w in holes), encoding="utf-8"
    )
    again = run("--again", out, "--listed", path, "--markdown", page, "--quiet")
    assert again.exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert "### as it is" in text
    assert "## Within" not in text
    assert f"| all |  | {len(content['mutants'])} |" in text


def test_what_liveness_said_is_told_again_beside_what_invariants_did(tmp_path: Path) -> None:
    """A scenario that is asked for both says two things of a mutant, and the first of them can be that it does less."""
    (tmp_path / "lamp.py").write_text(LAMP_WITH_INVARIANT, encoding="utf-8")
    scenario, out = tmp_path / "lamp.toml", tmp_path / "out.json"
    properties = '["it_is_seen_by_its_light", "it_gets_light"]'
    scenario.write_text(f'protocol = "lamp.py"\nproperties = {properties}\n', encoding="utf-8")
    run(scenario, "--json", out, "--quiet")
    told = json.loads(out.read_text(encoding="utf-8"))["mutants"]
    twice = [m for m in told if m["verdict"] == "within" and len(m["results"]) == 2]
    assert [m["text"] for m in twice] == ["s.next.seen"]
    run("--again", out, "--json", tmp_path / "again.json", "--quiet")
    retold = json.loads((tmp_path / "again.json").read_text(encoding="utf-8"))["mutants"]
    assert [(m["verdict"], m["results"]) for m in retold] == [(m["verdict"], m["results"]) for m in told]


@pytest.mark.parametrize("key", ["scenarios", "mutants", "seconds", "columns", "kind", "results"])
def test_a_run_that_is_none_is_not_told_again(tmp_path: Path, key: str) -> None:
    """One line, status 2, whatever is wrong in it."""
    mutant = {
        "place": "model.py:3", "last_line": 3, "columns": [0, 4], "within": "f", "protocol": "p", "actions": ["a"],
        "kind": "guard", "name": "", "change": "dropped", "verdict": "killed",
        "results": [{"scenario": "s", "kind": "equal"}],
    }  # fmt: skip
    content: dict[str, Any] = {
        "scenarios": [{"name": "s", "states": 3}], "mutants": [mutant], "notes": [], "seconds": 1.0,
        "processor_seconds": 1.0, "interrupted": False,
    }  # fmt: skip
    path = tmp_path / "out.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    assert run("--again", path, "--quiet").exit_code == 0
    (mutant if key in mutant else content)[key] = {"kind": "none"}
    path.write_text(json.dumps(content), encoding="utf-8")
    result = run("--again", path, "--quiet")
    assert result.exit_code == 2
    assert result.output.startswith(f"highwater: {path}: not what highwater mutate writes")
