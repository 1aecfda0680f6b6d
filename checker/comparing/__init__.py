"""Comparison of two models: revisions, rules, mutants; and the coverage of a search."""
