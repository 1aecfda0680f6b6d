"""Comparison of the model with Kafka's own controller and raft clients.

In: a Kafka release or checkout, and a scenario. Out: the differences between Kafka's answers and the model's. It may
know the controller's protocol and the quorum's, and is the only package that starts Java code of Kafka.
"""
