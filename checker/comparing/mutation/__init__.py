"""Mutation of a protocol: change one operation of its text at a time, and report which scenario detects the change.

``kernels`` compiles a model with all its mutants behind a selector, ``searches`` explores with one of them,
``examining`` compares all mutants of one scenario with the protocol, ``work`` distributes scenarios to processes,
``run`` collects the results, ``findings`` holds and keeps them, ``report`` writes them.
"""
