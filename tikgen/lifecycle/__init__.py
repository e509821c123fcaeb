"""Shows the lives of kernels as text, picture, page and file; explains builds; shows IR."""
