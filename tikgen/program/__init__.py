"""Programs: bound kernels, swaps, loops and conditions that run many steps."""
