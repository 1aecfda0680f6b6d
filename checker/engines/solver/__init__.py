"""The Z3 engine: bounded checks, proofs by induction, and comparison of two versions of a protocol."""
