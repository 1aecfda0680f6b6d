"""Comparison of two models (revisions, sets of rules, or mutants), and coverage of a model by a search."""
