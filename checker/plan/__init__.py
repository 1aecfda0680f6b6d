"""Plans of an operator: from the metadata log of a cluster to the outcomes that are possible, and reports.

In: a metadata log and an action. Out: the possible outcomes, each with a run. It may know the protocol
``replication.plan`` and the belief states of a replay.
"""
