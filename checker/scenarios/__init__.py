"""Scenarios: their files, requests made from them, and the catalogue and rulebook of what they can name."""
