"""The model's controller and rules about logs as functions of Python values, and the rules of each Kafka version."""
