"""Users' own kernels, written down as text with all that they use."""
