"""The HTML page of runs to step through, with a chart, the states, and why a property is false."""
