"""Logs of brokers, and dumps of their data segments, compared with the metadata log."""
