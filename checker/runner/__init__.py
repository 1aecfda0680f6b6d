"""Running scenarios: one, or several in parallel, with progress and stored results."""
