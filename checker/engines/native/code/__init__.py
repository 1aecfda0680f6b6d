"""The way from LLVM text to machine code: compiled in this process or in the background, and cached on disk."""
