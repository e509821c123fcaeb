"""What is measured, one module for each template."""

from works import gemm, histogram, map, reduce, scan, spmv, stencil, transpose
from works.work import Target, Work

WORKS: tuple[Work, ...] = tuple(
    work
    for module in (map, stencil, reduce, scan, transpose, gemm, spmv, histogram)
    for work in module.WORKS
)

__all__ = ["WORKS", "Target", "Work"]
