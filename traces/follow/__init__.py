"""Follow a running cluster: read its metadata log and brokers' logs while they grow, and report incidents."""
