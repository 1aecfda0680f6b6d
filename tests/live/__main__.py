"""``python -m tests.live VERSION [DIRECTORY] [--no-elr]`` runs a live cluster, and prints its steps and events."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests import kafka_release
from tests.live.run import KEPT, LOSSY, MOVED, SINGLE, live_run


def main(arguments: list[str]) -> int:
    """Run the cluster and print its timeline; returns the exit status."""
    has_elr = "--no-elr" not in arguments
    arguments = [one for one in arguments if one != "--no-elr"]
    if not 1 <= len(arguments) <= 2:
        print("usage: python -m tests.live VERSION|DIR [DIRECTORY] [--no-elr]", file=sys.stderr)
        return 2
    folder = Path(arguments[1] if len(arguments) == 2 else tempfile.mkdtemp(prefix="highwater-live-"))
    run = live_run(
        kafka_release.kafka(arguments[0]),
        folder,
        lambda text: print(text, file=sys.stderr, flush=True),
        has_elr,
    )
    print(*run.timeline(), sep="\n")
    delays = ", ".join(f"{delay:.2f}" for delay in run.delays)
    print(f"delay of {len(run.delays)} events in seconds: {delays}")
    for topic in (KEPT, MOVED, LOSSY, SINGLE):
        number = sum(record.topic == topic for record in run.acknowledged)
        print(
            f"{topic}: {number:,} records acknowledged; a consumer reads {number - len(run.lost(topic)):,} of them"
        )
    print(f"logs and events: {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
