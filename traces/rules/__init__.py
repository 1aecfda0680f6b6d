"""The model's decisions and log rules as functions of Python values, and the rules of each Kafka version."""
