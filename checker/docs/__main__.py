"""``python -m checker.docs``."""

import sys

from checker.docs import main

sys.exit(main(sys.argv[1:]))
