"""Mutation of a protocol: change one operation of its text at a time, and report which scenario detects the change.

- ``searching`` searches a model from initial states that choose a mutant, and compares mutants with the protocol.
- ``examining`` compares all mutants of one scenario with the protocol, and keeps results in a file.
- ``run`` distributes scenarios to processes and collects the results.
- ``report`` writes the results.
"""
