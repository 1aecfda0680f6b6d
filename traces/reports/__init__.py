"""What comes out of a replay: the report, its incidents, and how both are shown."""
