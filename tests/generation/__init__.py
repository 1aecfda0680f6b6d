"""Generated Kafka logs: the model makes the controller's decisions; brokers and operators act at random.

The decisions come from the handlers of ``highwater.model.replication.controller``, so a replay must explain
every record, however long the log is.
"""

from tests.generation.life import write_log

__all__ = ["write_log"]
