"""Request logs of brokers and controllers (``kafka.request.logger``) against the messages of the replication model.

``lines.py`` reads the lines, ``messages.py`` what a line says, ``sessions.py`` which partitions a fetch is about.
``spine.py`` is what the metadata log says beside them, ``stages.py`` what a leader can have known of it. ``acting.py``
asks the model's actions in states in which offsets are ranks. ``leading.py`` follows a leader through its messages,
``proposals.py`` judges AlterPartition, ``replay.py`` puts it together and ``telling.py`` says what came of it.
"""
