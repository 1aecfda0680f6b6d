"""The engines, each behind one small interface: reference, native, Spark, solver; liveness on an explored graph."""
