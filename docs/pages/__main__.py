"""``python -m docs.pages``."""

import sys

from docs.pages.site import main

sys.exit(main(sys.argv[1:]))
