"""Code generation: kernels printed as LLVM IR, compiled to machine code and loaded."""
