"""What a replay asks of the model: its decisions, its rules about logs, and which sets of rules there are."""
