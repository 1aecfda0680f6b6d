"""Comparison of the model with Kafka's own controller: both receive every request in every state."""
