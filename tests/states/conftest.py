"""The session of Spark that all tests share."""

from tests.spark.conftest import _spark

__all__ = ["_spark"]
