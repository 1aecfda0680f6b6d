"""Kafka's own raft logs, org.apache.kafka.raft at TRACE, held against the protocol `quorum`.

Three names are those of other things in ``traces/requests``. Here ``Fetch`` is a fetch of the metadata log, as a member
sends it, and ``Answered`` the event that its answer was sent (there: a fetch between brokers, and what the model
answers it); ``Node`` is a member as its own log tells it (there: a broker by its request log). ``Follower`` follows
events here, and records of a metadata log in ``traces/metadata``.
"""
