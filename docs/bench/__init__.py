"""Benchmarks: ``python -m docs.bench`` measures the cases and writes docs/benchmarks.md."""
