"""Reports of a search or a run: counterexamples, charts, summaries, pages, JSON.

In: a SearchResult and its Model. Out: text, JSON and pages. The interpreter replays each run that a report shows.
"""
