"""Fixtures of tests/spark: the shared Spark session."""

from tests.spark.conftest import _spark

__all__ = ["_spark"]
