"""Devices behind OpenCL, by pyopencl."""
