"""One page for every run: a file of HTML to step through, with the chart, the states, and why the property is false."""
