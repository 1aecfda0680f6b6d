"""Recordings of real systems: trace formats, and replay against the protocol.

In: untrusted files. Out: reports with findings and incidents. It may import model and invariants, and no engine.
"""
