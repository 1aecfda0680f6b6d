"""The engines, each with one small interface: reference, native, Spark, solver; and liveness on an explored graph."""
