"""The Z3 engine: bounded checks, and induction from any state. Its terms come only from the expression graph."""
