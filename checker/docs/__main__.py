"""``python -m highwater.checker.docs``."""

import sys

from highwater.checker.docs import main

sys.exit(main(sys.argv[1:]))
