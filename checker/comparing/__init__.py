"""Comparison of two models: of two revisions, of two sets of rules, or of mutants. Also coverage of a search."""
