"""Comparison of two models (revisions, sets of rules, or mutants)."""
