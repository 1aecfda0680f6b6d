"""``python -m highwater`` is the command ``highwater``."""

from highwater.checker.cli import main

main()
