"""``python -m checker`` is ``highwater``."""

from checker.cli import main

main()
