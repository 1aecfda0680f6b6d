"""Brokers' logs, and dumps of their data segments, compared with the metadata log.

In: lines of logs, and tenures of the metadata log. Out: bounds of HWMs and findings. Missing lines
only widen the bounds.
"""
