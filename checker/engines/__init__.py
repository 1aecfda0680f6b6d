"""The engines: reference, native, Spark, solver, and liveness on an explored graph. Each has one small interface."""
