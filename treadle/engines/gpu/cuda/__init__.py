"""NVIDIA's devices: kernels through LLVM to PTX, the driver's own library by ctypes."""
