"""The checker: engines, scenarios, counterexamples, reports and the command line.

In: scenario files, protocols and recordings. Out: verdicts with exit statuses. It may import model, invariants and
traces. No engine knows a protocol by name.
"""
