"""Libraries and modules that are not there or cannot be loaded: named, instead of being told as errors of ours."""

from __future__ import annotations

from types import FrameType, TracebackType

PACKAGES = {
    "cramjam": "cramjam",
    "crc32c": "crc32c",
    "hypothesis": "hypothesis",
    "llvmlite": "llvmlite",
    "msgspec": "msgspec",
    "networkx": "networkx",
    "numpy": "numpy",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
    "pyspark": "pyspark",
    "rich": "rich",
    "scipy": "scipy",
    "werkzeug": "werkzeug",
    "z3": "z3-solver",
}
"""The libraries by their modules, with the packages that they come in."""
_LONGEST = 300


def missing_library(wrong: BaseException) -> str | None:
    """Which library an error is about that cannot be loaded, in one line; None where it is about something else.

    A package that is not there is a ModuleNotFoundError; what is damaged, or lacks another library or memory, is
    any error that a library raises while it is imported, or an OSError without a number from its loader.
    """
    if isinstance(wrong, ModuleNotFoundError) and wrong.name is not None:
        name = wrong.name.partition(".")[0]
        if name in PACKAGES:
            return f"the package {PACKAGES[name]} is not installed: {wrong}"
        return None
    frames = list(_frames(wrong.__traceback__))
    loading = isinstance(wrong, OSError) and wrong.errno is None
    for number, frame in enumerate(frames):
        name = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        importing = frame.f_code.co_name == "<module>"
        last = number == len(frames) - 1
        if name in PACKAGES and (importing or isinstance(wrong, ImportError) or (loading and last)):
            return f"the library {PACKAGES[name]} cannot be loaded: {str(wrong)[:_LONGEST] or type(wrong).__name__}"
    return None


def module_cut_short(wrong: EOFError) -> str:
    """Which compiled module has no end, in one line: Python leaves such a file on a full disk, and believes it."""
    places = [frame.f_locals.get("bytecode_path") for frame in _frames(wrong.__traceback__)]
    named = [str(place) for place in places if place]
    if named:
        return f"{named[-1]}: a compiled module of Python's that is cut short, as a full disk leaves it: remove it"
    return f"something that is read ends too early: {str(wrong)[:_LONGEST]}"


def _frames(trace: TracebackType | None) -> list[FrameType]:
    found = []
    while trace is not None:
        found.append(trace.tb_frame)
        trace = trace.tb_next
    return found
