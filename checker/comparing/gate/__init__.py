"""The gate: run again everything that a committed baseline records about a protocol, and compare.

- ``baseline`` is the file.
- ``entries`` runs an entry and extracts its facts. It also computes the digests of a protocol's widest models, which
  change with code that no scenario executes.
- ``gating`` chooses and orders the entries, explains differences, and writes the report, for people and as JSON.
- ``comparison`` runs entries in parallel within the budget, and decides what is the same, renamed or different. It
  also finds other scenarios that reach a state in which two revisions differ.

``comparing`` loads the model of another revision and compares it with the present one.
"""
