"""The Z3 engine: bounded checks, and induction from any state. Its terms come from the expression graph alone."""
