"""What Kafka itself writes: metadata logs, snapshots, dumps of both, and logs of brokers."""
