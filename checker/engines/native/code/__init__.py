"""Compilation of LLVM text to machine code, in this process or in the background, and the cache of machine code."""
