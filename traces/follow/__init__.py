"""Follow a running cluster: read its metadata log and brokers' logs while they grow, and report incidents.

In: growing files. Out: open and closed incidents. It writes nothing; ``checker/follow`` does.
"""
