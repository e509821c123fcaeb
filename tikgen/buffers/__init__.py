"""Buffers on host and device, their pool, the devices, and graphs of kernels."""
