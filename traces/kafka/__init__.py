"""Readers of the files that Kafka writes: metadata logs, snapshots, dumps of both, and logs of brokers."""
