"""Conformance of a metadata log: whether the controller's rules explain each change of each partition.

A partition is followed as an automaton that is built as it is needed. What is believed of it is the set of all
model states that fit what was observed so far (``beliefs``), in which brokers are slots; a roster says which brokers
these are. What a belief and a record lead to is found once, by the model's actions (``actions``,
``explanation``); where it occurs again, in whatever partition, it is looked up (``situations``). So a log of
millions of records is checked against the same rules, none of them restated, at the price of two small tables.
"""
