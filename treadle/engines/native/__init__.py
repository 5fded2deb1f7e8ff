"""Generated machine code: kernels printed as LLVM IR, compiled in process."""
