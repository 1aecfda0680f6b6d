"""Recorded operations of a controller: how they are read, and whether the rules decide the same.

A line is read (``read_recording``; the types are in ``format``), decided by the controller's handlers (``decide``) from
the ``state`` before it, and compared with what was recorded (``comparison``). ``replay`` puts this together.
"""
