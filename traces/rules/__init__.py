"""The model's decisions and log rules as functions of plain values, and the rules of each Kafka version."""
