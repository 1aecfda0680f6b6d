"""``python -m highwater.checker.docs.search_bounds_4_2``: search the grid of bounds of Kafka 4.2.1."""

import sys

from highwater.checker.docs.bounds_4_2 import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
