"""Request logs of brokers and controllers (``kafka.request.logger``) against the messages of the replication model.

``lines.py`` reads the lines, ``forms.py`` most of them straight into types, ``messages.py`` what a line says
(``shapes.py``: what is wrong with it), ``sessions.py`` which partitions a fetch is about. ``spine.py`` is what the
metadata log says beside them, ``history.py`` of one partition, ``stages.py`` what a leader can have known of it,
``clocks.py`` what shows that clocks are off.
``acting.py`` asks the model's actions in states in which offsets are ranks. ``leading.py`` is a leader by what it
heard; ``fetches.py``, ``writes.py`` and ``claims.py`` judge what it answered, ``expansions.py`` what it proposed,
``proposals.py`` what the controller made of that. ``asked.py`` is what the controllers' logs say; like the spine it
lies in tables on disk (``tables.py``). ``nodes.py`` goes through a node's log, ``replay.py`` through all of them, and
``verdicts.py`` is what came of it. ``around.py`` collects what a page shows.
"""
