"""Recorded operations of a controller: how they are read, and whether the rules decide the same."""
