"""``python -m highwater`` is the command ``highwater``."""

import os
import sys

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
try:
    _HERE = os.getcwd()
except FileNotFoundError:  # the directory was removed; main() reports it
    _HERE = ""
if sys.path and sys.path[0] == _HERE != _OURS and not sys.flags.safe_path:
    del sys.path[0]  # `-m` added the current directory: import no modules from it, unless it holds Highwater

from highwater.checker.cli import main  # noqa: E402

main()
