"""Scenarios run: one, or many side by side, with their progress."""
