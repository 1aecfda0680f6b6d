"""The Z3 engine: bounded checks, proofs by induction, and comparison of two versions of a protocol.

In: one or two Models. Out: a proof, or a run that violates a property. It may know the graph and its operations.
"""
