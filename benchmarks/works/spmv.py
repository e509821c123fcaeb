"""Sparse matrix times vector: each row holds its 27 neighbours on a periodic grid."""

from collections.abc import Mapping
from functools import partial
from itertools import product

import numpy as np

from works.work import Arguments, Target, Work


def matrix(sizes: Mapping[str, int], rng: np.random.Generator) -> Arguments:
    n = round(sizes["rows"] ** (1 / 3))
    i, j, k = np.indices((n, n, n), np.int32).reshape(3, -1)
    columns = np.empty((n**3, 27), np.int32)
    for slot, (di, dj, dk) in enumerate(product((-1, 0, 1), repeat=3)):
        columns[:, slot] = ((i + di) % n * n + (j + dj) % n) * n + (k + dk) % n
    columns.sort(axis=1)
    return {
        "indices": columns.reshape(-1),
        "indptr": np.arange(0, columns.size + 1, 27, dtype=np.int32),
        "alpha": 1.0,
        "beta": 0.0,
    }


def grid(n: int) -> dict[str, int]:
    return {"rows": n**3, "cols": n**3, "nnz": 27 * n**3}


spmv = partial(
    Work, kind="spmv", title="spmv CSR", template="spmv", problem={"format": "csr"}, inputs=matrix
)

WORKS = (
    spmv(
        size="1 M rows",
        machine="cpu",
        sizes=grid(100),
        targets=(Target("taichi", 1.3), Target("numpy", 1.5)),
    ),
    spmv(size="2 M rows", machine="gpu", sizes=grid(128), targets=(Target("torch", 1),)),
    spmv(size="33 k rows", machine="lavapipe", sizes=grid(32)),
)
