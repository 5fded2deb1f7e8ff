"""CUDA without a card: PTX interpreted in NumPy, a libcuda that runs on it."""
