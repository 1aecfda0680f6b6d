"""Recorded operations of a controller: how they are read, and whether the rules decide the same.

``read_recording`` reads a line, ``decide`` makes the model's decision from the ``state`` before it, and ``replay``
compares the decision with the recorded one.
"""
