"""Recorded operations of a controller: reading a recording, and comparing its decisions with the model's.

``read_recording`` reads a line, ``decide`` makes the model's decision from the ``state`` before it, and ``replay``
compares the decision with the recorded one.
"""
