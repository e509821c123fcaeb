"""Grids that processes share: fields with ghost layers, and kernels that compute them."""
