"""Protocols in tests: the pytest plugin, Hypothesis machines, and conformance of an implementation."""
