"""The cost model: what it is made of, that it adds up, and that its figures are those of a run."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path
from typing import Any

import pytest

from docs.bench.page import PAGE

pytest.importorskip("pyarrow", reason="the extra 'spark' is not installed")

from docs.bench import page, spark_run, spark_search
from docs.bench.spark_cost import Cost, Plan, bill, size
from docs.bench.spark_run import Asked

COST = Cost(20.0, 0.5, 0.25, 0.01, 8, 1e-6, 1e-9, 2.0, 40, 30.0)


def made(states: int, levels: int, buckets: int = 8) -> dict[str, Any]:
    """What would be measured where the model is right."""
    sent = states * 2
    spent = COST.processor_seconds(states, levels)
    driver, workers = 2.0 + 0.1 * levels, spent - 12.0 - 0.5 * levels
    return {
        "states": states,
        "generated": 5 * states,
        "levels": levels,
        "level_seconds": [0.25 + 0.01 * (buckets - 8)] * levels,
        "buckets": buckets,
        "row": 40,
        "sent": sent,
        "written": 30 * states,
        "processor": {"java": spent - workers - driver, "python3.11": workers, "driver": driver},
        "parts": {
            "expand: prepare": 99.0,
            "expand: expand": 0.6e-6 * states,
            "merge: write": 0.4e-6 * states,
            "expand: send": 30e-9 * sent,
            "merge: receive": 9e-9 * sent,
            "merge: merge": 1e-9 * sent,
        },
    }


def test_the_parts_of_runs_predict_the_others() -> None:
    nothing = {**made(0, 0), "processor": {"java": 10.0, "driver": 2.0}}  # no Python worker is started
    cost = Cost.of(nothing, made(0, 22), made(0, 22, 64), made(1_000_000, 30))
    for name, value in dataclasses.asdict(COST).items():
        assert getattr(cost, name) == pytest.approx(value), name
    larger = made(80_000_000, 34)
    assert cost.processor_seconds(80_000_000, 34) == pytest.approx(sum(larger["processor"].values()))
    # 1 µs of the state and 80 bytes of 1 ns.
    assert cost.processor_seconds(80_000_000, 34) == pytest.approx(20 + 17 + 80 * 1.08)
    assert cost.wall_seconds(80_000_000, 34, 4) == pytest.approx(8.5 + 20 * 1.08)


def test_a_bill_adds_up() -> None:
    found = bill(COST, Plan(1e10, 100, 10, 4, 0.1), sent_per_state=5.0, buckets=108)
    assert found.core_hours == pytest.approx((20 + 50 + 1e10 * 1.2e-6) / 3600)
    assert found.hours == pytest.approx((100 * 1.25 + 1e10 * 1.2e-6 / 40) / 3600)
    assert found.disk_bytes == pytest.approx(1e10 * 30 + 0.1 * 1e10 * 200)
    assert found.moved_bytes == pytest.approx(2 * 1e10 * 230)
    assert found.memory_bytes == pytest.approx(1e10 * 8 / 0.7)
    assert found.collisions == pytest.approx(1e20 / 2**65)
    assert [size(n) for n in (12, 1.5e9, 2e12, 3.21e15)] == ["12 bytes", "1.5 GB", "2 TB", "3.21 PB"]


def test_the_page_has_each_row_in_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches are made up here; every figure of the calculated tables comes from them."""
    runs = {spark_search.EMPTY: (0, 0), spark_search.LEVELS: (0, 22), spark_search.MANY_BUCKETS: (0, 22),
            spark_search.SMALL: (6_000_000, 20), spark_search.THIRD: (20_000_000, 25),
            spark_search.LARGE: (72_000_000, 30)}  # fmt: skip
    more = {"seconds": 10.0, "caught_up": 7, "resident": 3e8, "tables": 1e8}
    disturbed = []

    def run(asked: Asked) -> dict[str, object]:
        if asked.master == spark_search.HOSTS:
            disturbed.append(asked.disturbance)
            return {**made(6_000_000, 20), **more, "seconds": 10.0 * len(disturbed)}
        found = {**made(*runs[asked], asked.buckets or 8), **more}
        if asked == spark_search.EMPTY:
            found["processor"] = {"java": 10.0, "driver": 2.0}
        return found

    native = {"distinct_states": 0, "seconds": 2.0, "processor": 4.0}
    monkeypatch.setattr(spark_run, "run", run)
    monkeypatch.setattr(spark_search, "_native", lambda asked: {**native, "distinct_states": runs[asked][0]})
    rows = list(spark_search.rows(1))
    assert disturbed == [None, spark_run.KILLED, spark_run.SLOWED, spark_run.SKEWED]
    text = spark_search.section(rows, "2 cores")
    for row in rows:
        assert row[row.index("|") :] in text
    assert "| 4 replicas, 2 records, 2 epochs, logs of 2 | 72,000,000 | 113 s | 113 s | +0% | " in text
    assert "| one at half speed from the middle on | 6,000,000 | 30 s | 3.00 | 7 |" in text
    assert f"| 100 billion | 400 × 1 | {(35 + 50 - 15 + 1e11 * 1.08e-6) / 3600:.2f} to " in text
    assert f"{25 / 3600 + 1e11 * 1.08e-6 / 400 / 3600:.2f} to " in text
    heads = [len(line.split(" | ")) for line in text.splitlines() if line.startswith("| ")]
    assert {3, 5, 8, 9, 2} >= set(heads)
    monkeypatch.setattr(spark_search, "_native", lambda asked: {**native, "distinct_states": 5})
    with pytest.raises(RuntimeError, match="and not 5"):
        list(spark_search.rows(1))


def test_its_page_is_the_one_about_spark(tmp_path: Path) -> None:
    copy = tmp_path / "spark.md"
    copy.write_text(PAGE.with_name("spark.md").read_text(encoding="utf-8"), encoding="utf-8")
    before = copy.read_text(encoding="utf-8")
    assert before.count(f"\n{spark_search.HEADING}\n") == 1
    page.write_section(spark_search.HEADING, f"{spark_search.HEADING}\n\nnew\n", copy)
    after = copy.read_text(encoding="utf-8")
    assert f"\n{spark_search.HEADING}\n\nnew\n\n## " in after
    assert after.splitlines()[0] == before.splitlines()[0]
    assert after.splitlines()[-1] == before.splitlines()[-1]


def test_a_slowed_process_and_those_below_it_run_half_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are stopped as long as they go on, again and again, and go on at the end."""
    done: list[object] = []
    monkeypatch.setattr(spark_run, "tree", lambda pid: [pid, pid + 1])
    monkeypatch.setattr(os, "kill", lambda pid, sign: done.append((pid, sign.name)))
    monkeypatch.setattr(time, "sleep", done.append)
    turns = iter([True, True, False])
    spark_run.half_speed(7, lambda: next(turns))
    stop, go = ([(7, sign), (8, sign)] for sign in ("SIGSTOP", "SIGCONT"))
    (pause,) = {seconds for seconds in done if isinstance(seconds, float)}
    assert done == [*stop, pause, *go, pause] * 2 + go
