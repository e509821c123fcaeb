"""Measures kernels on grids that several processes share."""
