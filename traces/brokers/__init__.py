"""Logs of brokers, and dumps of their data segments, held against what the metadata log says."""
