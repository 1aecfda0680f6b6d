"""The result of a replay: the report and its incidents, as text, page and JSON."""
