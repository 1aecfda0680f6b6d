"""The engines: interpreter, native, Spark and Z3, and the check of liveness properties on an explored graph."""
