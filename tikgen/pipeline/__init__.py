"""From a template to a kernel: resolve, render, load, wrap."""
