"""Protocols in tests: the pytest plugin, Hypothesis machines, conformance of an implementation."""
