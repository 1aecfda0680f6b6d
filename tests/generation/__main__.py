"""``python -m tests.generation DIRECTORY [HH:MM]``: write the logs of a small cluster that lost data, up to a time."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.generation.incident import write_incident


def main(arguments: list[str]) -> int:
    if len(arguments) not in (1, 2) or arguments[0].startswith("-"):
        print("usage: python -m tests.generation DIRECTORY [HH:MM]", file=sys.stderr)
        return 2
    directory = Path(arguments[0])
    try:
        directory.mkdir(parents=True)
        write_incident(directory, *arguments[1:])
    except OSError as wrong:
        print(f"{directory}: cannot be made: {wrong.strerror or wrong}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
