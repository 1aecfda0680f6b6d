"""Messages that systems logged, held against the model: request logs of brokers and controllers, and raft logs."""
