"""Benchmarks: ``python -m highwater.checker.bench`` measures and writes docs/benchmarks.md, a module a part."""
