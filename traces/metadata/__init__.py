"""Conformance of a metadata log: whether the controller's rules explain each change of each partition.

A partition is followed as an automaton that is built as it is needed. Its state is a *situation*: the set of
all model states that fit what was observed so far (``beliefs``), in the terms of the partition's brokers
(``situations``). What one situation and one record lead to is found once, by the model's actions
(``actions``); where it occurs again, in whatever partition, it is looked up. So a log of millions of records is
checked against the same rules, none of them restated, at the price of a table.
"""
