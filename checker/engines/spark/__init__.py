"""The Spark engine: the native kernels run on an existing cluster, level by level. Each level is saved as Parquet."""

from highwater.checker.engines.spark.search import search

__all__ = ["search"]
