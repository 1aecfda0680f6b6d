"""The engines: interpreter, native, Spark and Z3, and the check of liveness properties on an explored graph.

In: a Model and SearchOptions. Out: a SearchResult with violations and counts. An engine reads only the expression
graph. It knows no protocol, no scenario file and no report.
"""
