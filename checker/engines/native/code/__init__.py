"""From LLVM text to machine code: compiled here or beside, and kept on disk."""
