"""Recorded operations of a controller, compared with the model's decisions.

``read_recording`` reads an operation, ``decide`` makes the model's decision from the ``state`` before the operation,
and ``replay`` compares the decision with the recorded one.
"""
