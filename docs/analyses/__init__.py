"""Searches whose results the pages tell: defects, findings in versions of Kafka, bounds, delays, liveness."""
