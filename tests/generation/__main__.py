"""``python -m tests.generation DIRECTORY``: write the logs of a small cluster that lost data."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.generation.incident import write_incident


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: python -m tests.generation DIRECTORY", file=sys.stderr)
        return 2
    directory = Path(arguments[0])
    try:
        directory.mkdir(parents=True)
        write_incident(directory)
    except OSError as wrong:
        print(f"{directory}: cannot be made: {wrong.strerror or wrong}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
