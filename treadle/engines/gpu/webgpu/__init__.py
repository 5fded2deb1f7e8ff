"""Devices behind WebGPU, by wgpu: Vulkan, Metal and DirectX 12."""
