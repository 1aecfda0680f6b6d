"""Follow a running cluster: its metadata log and its brokers' logs while they grow, and incidents as they happen."""
