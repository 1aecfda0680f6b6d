"""Kafka's own controller beside the model: every state, every request, both answers."""
