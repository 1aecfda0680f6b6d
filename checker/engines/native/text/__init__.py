"""The native engine's programs as LLVM text: kernels of a model, and the loops around them."""
