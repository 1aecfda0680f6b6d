"""Reports of a search or a run: counterexamples, charts, summaries, pages, JSON."""
