"""Mutation of a protocol: change one operation of its text at a time, and report which scenario detects the change.

- ``kernels`` compiles a model and all its mutants once, and runs the mutant that a selector chooses.
- ``examining`` compares all mutants of one scenario with the protocol, and keeps results in a file.
- ``run`` distributes scenarios to processes and collects the results.
- ``report`` writes the results.
"""
