"""``python -m tests.live KAFKA [DIRECTORY]`` runs a live cluster of a Kafka release and prints its steps and events."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.live.run import KEPT, LOSSY, live_run


def main(arguments: list[str]) -> int:
    """Run the cluster and print its timeline; returns the exit status."""
    if not 1 <= len(arguments) <= 2 or not Path(arguments[0], "libs").is_dir():
        print("usage: python -m tests.live KAFKA [DIRECTORY]  (KAFKA: an unpacked release)", file=sys.stderr)
        return 2
    folder = Path(arguments[1] if len(arguments) == 2 else tempfile.mkdtemp(prefix="highwater-live-"))
    run = live_run(Path(arguments[0]), folder, lambda text: print(text, file=sys.stderr, flush=True))
    print(*run.timeline(), sep="\n")
    delays = ", ".join(f"{delay:.2f}" for delay in run.delays)
    print(f"delay of {len(run.delays)} events in seconds: {delays}")
    for topic in (KEPT, LOSSY):
        number = sum(record.topic == topic for record in run.acknowledged)
        print(
            f"{topic}: {number:,} records acknowledged; a consumer reads {number - len(run.lost(topic)):,} of them"
        )
    print(f"logs and events: {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
