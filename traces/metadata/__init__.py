"""Conformance of a metadata log: whether the controller's rules explain each change of each partition.

A partition is followed as an automaton that is built as it is needed: what a word of symbols makes of a belief state is
explained once, by the model's actions, and looked up wherever it occurs again, in whatever partition. So a log of
millions of records is checked against the same rules, none of them restated, at the price of two small tables.

The words of this package, each with one meaning:

- *observation*: what the log says happens to a partition: a ``Change`` (its record), a ``BrokerChange``, ``Settings``.
- *slot*: a broker as the model has it: its place among a partition's replicas, then among the others that it names.
- *binding*: which brokers the slots of one partition stand for.
- *symbol*: an observation with slots for brokers, under a binding; *word*: the symbols of several observations.
- *belief state*: all model states that fit what was observed, for each set of rules that can have been in force.
- *evidence*: an observation as the model sees it, in slots, with one value for each setting.
- *hypothesis*: one of the model's actions with its parameters, which can explain evidence.
- *update*: the model states after evidence, by the hypotheses that explain it.
- *transition*: what the observations of one batch make of a belief state; *span*: a part of one between two belief
  states, mostly one decision of the controller.
- *group*: records of the log that belong together: of a batch, of a decision in several batches, of a transaction.
- *image*: brokers, topics, partitions and settings, as the log has them so far.
- *share*: the partitions of some topics, where one log is followed by several processes.
- *doubt*: something that is not known, behind which what is reported is not reliable.
"""
