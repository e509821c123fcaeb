"""Native bundles: object files, plain C functions and a shared library, nothing of Taichi's."""
