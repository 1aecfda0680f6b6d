"""Comparison of the model with Kafka's own controller: both answer every request in every state."""
