"""What came of a run, told: counterexamples, charts, reports, pages, JSON."""
