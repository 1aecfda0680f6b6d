"""The Spark engine: the native kernels run on an existing cluster, level by level. Each level is saved as Parquet.

In: a Model and a Spark session. Out: the same result as the native search. It may import the native engine.
"""

from highwater.checker.engines.spark.search import search

__all__ = ["search"]
