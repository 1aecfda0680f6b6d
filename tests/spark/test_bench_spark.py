"""The benchmark of searches on Spark: its figures are those of a run, and its page has each row in its table."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from docs.bench.page import PAGE

pytest.importorskip("pyarrow", reason="the extra 'spark' is not installed")

from docs.bench import page, spark_search
from docs.bench.spark_search import Search


def made(states: int) -> dict[str, Any]:
    spent = {"java": 10.0, "python3.11": 6.0, "driver": 2.0}
    return {
        "states": states,
        "seconds": 4.0,
        "sent": 2 * states,
        "written": 30 * states,
        "resident": 3e8,
        "processor": spent,
    }


def test_the_page_has_each_row_in_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches are made up here."""
    searched: list[Search] = []

    def run(asked: Search) -> dict[str, Any]:
        searched.append(asked)
        return made(6_000_000)

    native = {"distinct_states": 6_000_000, "seconds": 2.0}
    monkeypatch.setattr(spark_search, "run", run)
    monkeypatch.setattr(
        spark_search, "measure", lambda asked: SimpleNamespace(results=[native], processor=4.0)
    )
    rows = list(spark_search.rows(1))
    assert [asked.killed_at for asked in searched if asked.master == spark_search.HOSTS] == [None, 3_000_000]
    text = spark_search.section(rows, "2 cores")
    for row in rows:
        assert row[row.index("|") :] in text
    assert "| 3.00 million a second, 4 s | 1.50 million a second, 18 s | 6 s, 10 s, 2 s |" in text
    assert "| 2.00 | 30 bytes | 0.30 GB |" in text
    native["distinct_states"] = 5
    with pytest.raises(RuntimeError, match="and not 5"):
        list(spark_search.rows(1))


def test_its_page_is_the_one_about_spark(tmp_path: Path) -> None:
    copy = tmp_path / "spark.md"
    before = PAGE.with_name("spark.md").read_text(encoding="utf-8")
    copy.write_text(before, encoding="utf-8")
    assert before.count(f"\n{spark_search.HEADING}\n") == 1
    page.write_section(spark_search.HEADING, f"{spark_search.HEADING}\n\nnew\n", copy)
    after = copy.read_text(encoding="utf-8")
    assert f"\n{spark_search.HEADING}\n\nnew\n\n## " in after
    assert after.splitlines()[0] == before.splitlines()[0]
    assert after.splitlines()[-1] == before.splitlines()[-1]
