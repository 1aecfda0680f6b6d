"""Write a small valid file of every kind that users give; the fuzzer changes these."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from tests.checker.conftest import COUNTER
from tests.fuzzing import readers
from tests.generation.batches import encode_batch
from tests.traces import data_dumps
from tests.traces.broker_runs import Run
from tests.traces.kafka.made import dump_of, segment, snapshot
from tests.traces.metadata import made_logs
from tests.traces.runs import made as runs

SCENARIO = """\
title = "A counter"
protocol = "counter.py"
profile = "plain"
properties = ["below_seven", "even_is_small"]
standard = false
symmetry = false
deadlock = true

[parameters]
top = 5
size = 9

[rules]
wraps = true
"skips" = false

[expect]
violated = ["below_seven"]
distinct_states = 6
depth = 6
impossible = []
constant = ["even_is_small"]
"""
BASELINE = """\
format = 1
engine = "0123456789abcdef0123"

[select]
scenarios = ["*.toml", "truncation/kip-*"]
without = ["truncation/kip-101"]

[select.proofs."all epochs"]
scenario = "counter.toml"
epochs = "unbounded"
parameters.top = 5
rules.wraps = false

[scenarios."counter.toml"]
verdict = "holds"
complete = true
distinct_states = 6
depth = 6
graph = "0123456789abcdef0123"
generated_states = 7
actions.increase = 5
premises.below_seven = 6
cut.top = 1

[scenarios."truncation/kip-279"]
verdict = "violated"
violated.strong_isr = 12
properties.weak_isr = "holds"

[proofs."all epochs"]
verdict = "kept"
properties.below_seven = "kept"
"""


def write(folder: Path) -> dict[str, Path]:
    """Write a file of each kind below a new folder; returns kind → path. Some kinds are directories."""
    folder.mkdir(parents=True)
    found: dict[str, Path] = {}

    def file(kind: str, name: str, content: str | bytes) -> None:
        path = folder / kind.replace(" ", "-") / name
        path.parent.mkdir()
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        found[kind] = path

    file("scenario", "counter.toml", SCENARIO)
    found["scenario"].with_name("counter.py").write_text(COUNTER)
    file("baseline", "gate.toml", BASELINE)
    found["baseline"].with_name("counter.toml").write_text(SCENARIO)
    found["baseline"].with_name("counter.py").write_text(COUNTER)
    lines = runs.walk_of("truncation/kip-101", depth=12, whole=True)
    file("run", "run.ndjson", _lines(lines))
    file("compressed run", "run.ndjson.gz", gzip.compress(_lines(lines)))
    file("explored run", "run.ndjson", _lines(runs.counterexample_of("truncation/truncate-to-hwm")))
    log = [*made_logs.beginning(), *made_logs.loss()]
    found["metadata log"] = made_logs.write(folder / "metadata-log", log)
    (content,) = [path.read_bytes() for path in found["metadata log"].iterdir()]
    file("metadata segment", f"{0:020}.log", content)
    file("compressed segment", f"{0:020}.log", b"".join(segment(compression="zstd")))
    file("snapshot", f"{len(log):020}-{1:010}.checkpoint", snapshot(log))
    file("dump", "dump.txt", dump_of(encode_batch(0, 1, 1000, log[:4]) + content))
    # Replay also reads the logs of two brokers, and a dump, next to the metadata log.
    run = Run(folder / "logs", seed=1, unclean=True)
    for _ in range(60):
        run.step()
    for (broker, name), said in run.made.lines.items():
        if name == "server" and broker < 2:
            file(f"log of broker {broker}", f"server-{broker}.log", "\n".join(said) + "\n")
    file(
        "data dump",
        "data-node1.txt",
        data_dumps.dump("/kafka/data/t-0/00000000000000000000.log", ((0, 0), (1, 5)), 9),
    )
    for kind in ("log of broker 0", "log of broker 1", "data dump"):
        made_logs.write(found[kind].parent / "__cluster_metadata-0", log)
    kept = folder / "checkpoint"
    readers.command(*readers.checkpointed(found["scenario"], kept))
    found["checkpoint"] = kept / "manifest.json"
    return found


def _lines(lines: list[dict[str, object]]) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in lines).encode()
