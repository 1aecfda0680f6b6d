"""Recordings of real systems: trace formats, and replay against the protocol."""
