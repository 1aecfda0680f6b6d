"""Protocols in tests: the pytest plugin, Hypothesis machines, and conformance of an implementation.

In: scenarios, and an adapter of the implementation. Out: test items and failures. It is public, for other repositories.
"""
