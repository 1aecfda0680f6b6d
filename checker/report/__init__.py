"""Reports of a run: counterexamples, charts, reports, pages, JSON."""
