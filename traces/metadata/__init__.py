"""Conformance of a metadata log: replay checks that the controller's rules explain each change of each partition.

All partitions share one automaton, which is built on demand. The model's actions explain once how a word of symbols
changes a belief state. Wherever the word occurs again, in any partition, the transition is looked up. So two small
tables suffice to check a log of millions of records, and replay uses the model's rules instead of its own.

In: a metadata log, or its parts. Out: findings, tenures of leaders, and the belief states at its end. It may know the
controller's protocol, and no log of a broker.

The words of this package, each with one meaning:

- *observation*: an event of a partition in the log: a ``Change`` (its record), a ``BrokerChange``, ``TopicSettings``.
- *slot*: a broker's number in the model, from 0: first a partition's replicas in their order, then its other brokers.
- *binding*: the brokers of one partition's slots.
- *symbol*: an observation with slots for brokers, under a binding; *word*: the symbols of several observations.
- *belief state*: all model states that fit the observations.
- *evidence*: an observation as the model sees it, in slots, with one value for each setting.
- *hypothesis*: one of the model's actions with its parameters, which can explain evidence.
- *update*: the model states after evidence, by the hypotheses that explain it.
- *transition*: the change of a belief state by the observations of one batch; *span*: a part of it between two belief
  states, mostly one decision of the controller.
- *group*: the records of one batch, of one decision in several batches, or of one transaction.
- *image*: brokers, topics, partitions and settings, up to the present offset of the log.
- *doubt*: an unknown fact; from its offset on, reports about the partitions that it concerns are not reliable.
"""
