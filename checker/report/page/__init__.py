"""The HTML page of runs to step through, with a chart, the states, and why a property is false.

In: runs of one or several results. Out: one HTML file that loads nothing from elsewhere.
"""
