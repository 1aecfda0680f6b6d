"""Kafka's own controller beside the model."""
