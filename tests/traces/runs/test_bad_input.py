"""A file that is no trace gives one error that names file, line and field."""

from __future__ import annotations

import copy
import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import highwater.traces.runs as runs
from highwater.traces.reading import TraceError
from highwater.traces.runs import is_run_trace, replay_run
from tests.checker.schema import problems
from tests.traces.json_changes import another, fields_of, get, put
from tests.traces.runs.made import walk_of, write

LINES = walk_of("truncation/kip-101", depth=8)
WHOLE = walk_of("replication/large-crashes", depth=6, whole=True)
SCHEMA = json.loads((Path(runs.__file__).parent / "trace.schema.json").read_text())


def trouble(path: Path) -> TraceError | None:
    try:
        replay_run(path)
    except TraceError as wrong:
        found = wrong
    else:
        return None
    assert str(found).isprintable()
    assert str(path) in str(found)
    return found


def refused(folder: Path, lines: Any) -> TraceError:
    wrong = trouble(write(folder / "run", lines))
    assert wrong is not None
    return wrong


def with_change(lines: Any, at: int, path: str, value: Any) -> Any:
    changed = copy.deepcopy(lines)
    put(changed[at], path, value)
    return changed


WRONG = [
    (0, "meta/format", "another-1", "meta.format", "invalid enum value 'another-1'"),
    (0, "meta/protocol", "raft", "meta.protocol", "unknown protocol 'raft'; known: promise, quorum, replication"),
    (0, "meta/protocol", "..checker", "meta.protocol", "unknown protocol"),
    (0, "meta/profile", "kip_1", "meta.profile", "unknown profile of truncation 'kip_1'; did you mean 'kip_1"),
    (0, "meta/rules", {"no_such": True}, "meta.rules", "unknown rule of truncation 'no_such'"),
    (0, "meta/rules", {"matching_tail": 1}, "meta.rules.matching_tail", "expected `bool`, got `int`"),
    (0, "meta/parameters", {"brokers": 3}, "meta.parameters", "unknown parameter of truncation 'brokers'"),
    (0, "meta/parameters", {"replicas": 9}, "meta.parameters.replicas", "replicas is 1 to 5, not 9"),
    (0, "meta/parameters", {"replicas": True}, "meta.parameters.replicas", "expected `int`, got `bool`"),
    (0, "meta/parameters", [], "meta.parameters", "expected `object`, got `array`"),
    (0, "meta/observed", ["replicas[7]"], "meta.observed[0]", "7 is outside 0..2"),
    (0, "meta/observed", ["quorum.leader", "quorum.hwm"], "meta.observed[1]", "Quorum has leader_epoch"),
    (0, "meta/observed", ["logs[*].size"], "meta.observed[0]", "has no field 'size'"),
    (0, "meta/observed", ["quorum.isr[0]"], "meta.observed[0]", "has nothing inside"),
    (0, "meta/observed", ["../x"], "meta.observed[0]", "is no path"),
    (0, "meta/hidden_steps", -1, "meta.hidden_steps", "expected `int` >= 0"),
    (0, "meta/start", "middle", "meta.start", "invalid enum value 'middle'"),
    (0, "meta/more", 1, "meta", "object contains unknown field `more`"),
    (1, "step", 2, "step", "expected 0 or 1, not 2"),
    (3, "step", 3, "step", "expected 2, not 3: steps are counted one by one"),
    (1, "action", "crash", "action", "no action led to it"),
    (1, "changes", {}, "changes", "nothing was before it"),
    (3, "action", "explode", "action", "unknown action 'explode'; there are become_follower"),
    (3, "parameters", {"broker": 1}, "parameters", "has no parameter 'broker'"),
    (3, "parameters/replica", True, "parameters.replica", "true is none of 0, 1, 2"),
    (3, "time_ms", 0.5, "time_ms", "expected `int`, got `float`"),
    (3, "state", [], "state", "expected `object`, got `array`"),
    (3, "state", None, "state", "expected `object`, got `null`"),
    (3, "action", "\ud800" * 1001, "action", "expected `str` of length <= 1000"),
    (3, "\ud800", 1, None, "not Unicode text"),
    (0, "meta/start", "\ud800", None, "not Unicode text"),
    (3, "state", {"hwm": 1}, "state", "a field that is not known: hwm; State has logs, replicas"),
    (3, "state", {"logs": [[], []]}, "state.logs", "3 elements are expected"),
    (3, "state", {"logs": {"01": []}}, "state.logs", "'01' is no replica of 0..2"),
    (3, "state", {"logs": 7}, "state.logs", "expected a list, or an object"),
    (3, "state", {"logs": [[{"id": 2}], [], []]}, "state.logs[0][0].id", "2 is outside 0..1 (bound max_records)"),
    (3, "state", {"logs": [[{}, {}, {}], [], []]}, "state.logs[0]", "3 elements, where 2 have room (bound log_size)"),
    (3, "state", {"quorum": {"isr": [0, 0]}}, "state.quorum.isr[1]", "0 stands twice in a set"),
    (3, "state", {"quorum": {"isr": [3]}}, "state.quorum.isr[0]", "3 is outside 0..2"),
    (3, "state", {"quorum": {"isr": 3}}, "state.quorum.isr", "expected a list of replicas"),
    (3, "state", {"next_record_id": None}, "state.next_record_id", "expected a whole number, not null"),
    (3, "changes", {"quorum.x": 1}, "changes", "unknown path 'quorum.x'"),
    (3, "changes", {"replicas[*].hwm": 1}, "changes", "names many parts; name one"),
    (3, "changes", {"replicas[0].hwm": 3}, "changes['replicas[0].hwm']", "3 is outside 0..2"),
    (3, "changes", {"replicas[0]": {"hwm": 1}}, "changes['replicas[0]']", "the whole value is needed"),
    (3, "changes", {"quorum": {"leader_epoch": 0, "leader": 0, "isr": []}, "quorum.leader": 0},
     "changes['quorum.leader']", "overlaps another change"),
]  # fmt: skip


@pytest.mark.parametrize(("at", "path", "value", "field", "message"), WRONG)
def test_a_line_that_is_wrong(
    at: Any, path: Any, value: Any, field: str | None, message: str, tmp_path: Path
) -> None:
    wrong = refused(tmp_path, with_change(LINES, at, path, value))
    assert (wrong.line, wrong.field) == (at + 1, field)
    assert message.lower() in wrong.message.lower()


def test_lines_that_do_not_fit_together(tmp_path: Path) -> None:
    both = with_change(LINES, 3, "state", {"next_record_id": 0})
    both[3]["changes"]["next_record_id"] = 1
    assert "says something else of this" in refused(tmp_path, both).message
    nameless = copy.deepcopy(LINES)
    del nameless[2]["action"]
    assert "parameters of no action" in refused(tmp_path, nameless).message
    assert "no steps" in refused(tmp_path, LINES[:1]).message


def test_a_value_outside_the_observed_paths_is_refused(tmp_path: Path) -> None:
    lines = with_change(LINES, 0, "meta/observed", ["logs"])
    states = refused(tmp_path, lines)
    assert (states.line, states.field) == (2, "state")
    lines[1]["state"] = {"logs": lines[1]["state"]["logs"]}
    changes = refused(tmp_path, lines)
    assert changes.line == 3
    assert all("none of the observed paths" in wrong.message for wrong in (states, changes))


def test_a_protocol_that_is_too_large_is_not_traced(tmp_path: Path) -> None:
    parameters = {"brokers": 12, "replication_factor": 5, "reassignments": 1}
    meta = {"format": "highwater-trace-1", "protocol": "replication.controller", "parameters": parameters}
    assert "are the most" in refused(tmp_path, [{"meta": meta}, {"step": 1}]).message


def test_a_line_after_a_nonconforming_one_is_still_read(tmp_path: Path) -> None:
    lines = copy.deepcopy(LINES)
    del lines[3]["changes"]
    lines[3]["state"] = {"next_record_id": 2}
    lines[5]["action"] = "explode"
    assert refused(tmp_path, lines).line == 6


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        assert trouble(path) is not None
    for content in (b"\n", b"{", b"[]\n", b"{}\n", b'{"meta": 3}\n', b"\xff\xfe", gzip.compress(b"{}")[:-9]):
        (tmp_path / "run").write_bytes(content)
        assert trouble(tmp_path / "run") is not None


def test_the_format_is_known_by_the_first_line() -> None:
    assert is_run_trace(json.dumps(LINES[0]).encode()[:-1])
    other = {"meta": {"format": "another-1"}}
    others: tuple[Any, ...] = (None, [], {}, {"meta": None}, other, LINES[1], ["highwater-trace-1"])
    assert not any(is_run_trace(json.dumps(line).encode()) for line in others)


# --- random input -----------------------------------------------------------------------------------------

fuzzing = settings(deadline=None, max_examples=40)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def agrees_with_schema(lines: Any) -> bool:
    first, *rest = lines
    found = problems(first, SCHEMA["$defs"]["first"], SCHEMA)
    for line in rest:
        found += problems(line, SCHEMA["$defs"]["line"], SCHEMA)
    return not found


@fuzzing
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_any_field_replaced_and_any_key_added(data: st.DataObject, seed: int, tmp_path: Path) -> None:
    """The reader accepts only traces that agree with the schema; others raise one TraceError."""
    rng = random.Random(seed)
    lines = copy.deepcopy(rng.choice([LINES, WHOLE]))
    for _ in range(rng.choice([1, 1, 3])):
        line = rng.choice(lines)
        path = rng.choice([p for p in fields_of(line) if p])
        if rng.random() < 0.5:
            put(line, path, another(rng, get(line, path)))
        else:
            put(line, path[: rng.randint(1, len(path))], data.draw(anything))
    if rng.random() < 0.5:
        names = ["about", "changes", "state", "action", "parameters", "time_ms", "x"]
        rng.choice(lines[1:])[rng.choice(names)] = data.draw(anything)
    if trouble(write(tmp_path / "run", lines)) is None:
        assert agrees_with_schema(lines)


@pytest.mark.parametrize("depth", [100, 900, 980, 1000, 100_000])
def test_nested_deeply(depth: int, tmp_path: Path) -> None:
    nested = "[" * depth + "]" * depth
    texts = [json.dumps(line) for line in LINES]
    for line in ('{"step": 2, "state": %s}', '{"step": 2, "changes": {"logs": %s}}', '{"step": 2, "about": %s}',
                 '{"step": 2, "action": "become_leader", "parameters": {"replica": %s}}'):  # fmt: skip
        (tmp_path / "run").write_text("\n".join([*texts[:3], line % nested]))
        trouble(tmp_path / "run")
