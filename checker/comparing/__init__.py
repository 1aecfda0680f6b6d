"""Comparison of two models (revisions, sets of rules, or mutants).

In: two revisions or variants of a protocol. Out: differences, and the scenario that detects each. It knows no protocol.

- ``revisions`` reads the models of another revision from git (``image`` runs there), and rebuilds them.
- ``differences`` compares expressions, ``states`` compares actions in every state of both revisions.
- ``gate`` compares a protocol with a committed baseline.
- ``mutants`` compares the mutants of one scenario with the protocol; ``mutation`` does so for several scenarios.
"""
