"""The metadata image: brokers, topics, partitions and settings, and in which log directories replicas are."""
