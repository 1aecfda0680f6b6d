"""Kafka's own raft logs, org.apache.kafka.raft at TRACE, held against the protocol `quorum`."""
