"""Brokers' logs, and dumps of their data segments, compared with the metadata log."""
