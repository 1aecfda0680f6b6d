"""The model's controller and rules about logs as functions of Python values, and the rules of each Kafka version.

In: plain values. Out: decisions of the model. It is the only way of other packages to handlers on plain values.
"""
