"""Replay on Spark: many inputs, or one log in shares of its partitions."""
