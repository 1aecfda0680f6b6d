"""Logged messages compared with the model: request logs of brokers and controllers, and raft logs."""
