"""Recorded operations of a controller: how they are read, and whether the rules decide the same.

A line is read (``read_recording``, ``read_operations``; the types are in ``format``), decided by the rules (``decide``
and ``decide_*``) from the ``state`` before it, and compared with what was recorded (``comparison``). ``replay`` puts
this together.
"""
