"""Conformance of a metadata log: replay checks that the controller's rules explain each change of each partition.

Each partition is followed by one automaton, which is built on demand. The model's actions explain once how a word of
symbols changes a belief state. Wherever the word occurs again, in any partition, the transition is looked up. So two
small tables suffice to check a log of millions of records, and no rule of the model is written again.

The words of this package, each with one meaning:

- *observation*: an event of a partition in the log: a ``Change`` (its record), a ``BrokerChange``, ``TopicSettings``.
- *slot*: a broker as the model has it: its place among a partition's replicas, then among its other brokers.
- *binding*: the brokers of one partition's slots.
- *symbol*: an observation with slots for brokers, under a binding; *word*: the symbols of several observations.
- *belief state*: all model states that fit the observations, for each set of rules that can have been in force.
- *evidence*: an observation as the model sees it, in slots, with one value for each setting.
- *hypothesis*: one of the model's actions with its parameters, which can explain evidence.
- *update*: the model states after evidence, by the hypotheses that explain it.
- *transition*: the change of a belief state by the observations of one batch; *span*: a part of it between two belief
  states, mostly one decision of the controller.
- *group*: records of the log that belong together: of a batch, of a decision in several batches, of a transaction.
- *image*: brokers, topics, partitions and settings, up to the present offset of the log.
- *share*: the partitions of some topics, where one log is followed by several processes.
- *doubt*: an unknown fact; reports from its offset on are not reliable.
"""
