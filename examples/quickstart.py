"""Sixty seconds of tikgen: build a kernel, call it, look at it."""

import numpy as np
import taichi as ti

import tikgen

ti.init(arch=ti.cpu, log_level=ti.WARN)

# The Laplacian in three dimensions, of second order, for f32.
laplacian = tikgen.build("stencil", dim=3, dtype="f32")
x = np.random.default_rng().random((32, 32, 32), dtype=np.float32)
y = np.zeros_like(x)
laplacian(x, y)

# Every kernel knows what it must compute: its NumPy reference.
error = np.abs(y - laplacian.reference(x, np.zeros_like(x))).max()
print(f"largest error against the reference: {error:.1e}")

# And it can be read, kept and owned.
print(laplacian)
print(laplacian.source.text)

assert error < 1e-5
