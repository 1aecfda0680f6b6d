"""Mutation of a protocol: each operation of its text got wrong, one at a time, and which scenario notices.

``kernels`` compiles a model with all its mutants behind a selector, ``searches`` explores with one of them,
``examining`` asks all mutants of one scenario, ``work`` shares scenarios out to processes, ``run`` puts together
what they say, ``findings`` keeps it, ``report`` and ``page`` tell.
"""
