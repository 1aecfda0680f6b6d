"""Runs of the model as traces, and comparison of traces of any system with the model.

The format is ``highwater-trace-1``, described in docs/trace-format.md. ``write_run`` writes a trace, ``replay_run``
compares a trace with its protocol, and ``is_run_trace`` recognizes the format by a file's first line.

In: a trace of any protocol. Out: a report. It knows no protocol by name.
"""

from highwater.model.language.interpreter import Interpreter
from highwater.traces.runs.format import FORMAT, is_run_trace
from highwater.traces.runs.replay import KIND, hold, replay_run
from highwater.traces.runs.writing import random_walk, write_run

__all__ = ["FORMAT", "KIND", "Interpreter", "hold", "is_run_trace", "random_walk", "replay_run", "write_run"]
