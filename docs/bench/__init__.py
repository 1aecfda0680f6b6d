"""Benchmarks: ``python -m docs.bench`` measures and writes docs/benchmarks.md, a module a part."""
