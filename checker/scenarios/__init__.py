"""Scenarios: their files, requests made of them, the catalogue and the rulebook of what there is."""
