"""Readers of the files that Kafka writes: metadata logs, snapshots, dumps of both, and logs of brokers.

In: untrusted bytes. Out: batches, records and lines with their places, in bounded memory. It knows no rule.
"""
