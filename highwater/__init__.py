"""Highwater: a formal model of Apache Kafka's replication protocol, and the checker that holds it to account."""
