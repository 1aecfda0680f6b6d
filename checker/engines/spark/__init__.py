"""The Spark engine: the native kernels inside an existing cluster, level by level, each committed as Parquet."""

from highwater.checker.engines.spark.search import search

__all__ = ["search"]
