"""Made metadata logs: a cluster's life, decided by the model, in the files that Kafka would have written.

The controller's decisions are those of the model (``highwater.traces.rules.decisions``); what brokers and operators do
is drawn at random. So every record of such a log must be explained, whatever its length.
"""

from tests.generation.life import write_log

__all__ = ["write_log"]
