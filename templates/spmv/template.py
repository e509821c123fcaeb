"""Sparse matrix times dense vector."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from tikgen import (
    Array,
    DType,
    Invalid,
    ProblemModel,
    Scalar,
    ScheduleModel,
    Template,
    parameter,
)
from tikgen.pipeline.loop_steps import looped, parallel, stepped
from tikgen.template.rules import GPUS, Not
from tikgen.template.shapes import are_small

# A row of so many entries in a tile, one thread adds up.
SHORT = 64
# What a block of threads may share on every device.
MOST_SHARED = 2**15


class Spmv(Template):
    """Sparse matrix-vector product, y = alpha * A @ x + beta * y.

    In `csr` format row `r` of A holds `data[e]` in column `indices[e]` for `e` from `indptr[r]`
    to `indptr[r + 1]`. In `ell` format it holds `data[r, s]` in column `indices[r, s]`, and a
    negative column pads. Entries of one row and column add up. Neither
    columns nor `indptr` are checked: a launch with wrong ones reads outside of the arrays.

    As in BLAS, y is not read where beta is 0, so that it may hold anything.
    """

    class Problem(ProblemModel):
        format: Literal["csr", "ell"] = parameter("how the matrix is stored", "csr")
        dtype: DType = parameter("element type", DType.f32, choices=("f32", "f64", "i32", "i64"))
        index_dtype: DType = parameter(
            "dtype of column indices and row bounds", DType.i32, choices=("i32", "i64")
        )

    class Schedule(ScheduleModel):
        split: Literal["rows", "merge"] = parameter(
            "what the threads take equal parts of: the rows, or entries and row ends together",
            "rows",
            only={"format": "csr", "arch": GPUS},
        )
        items: Literal[3, 5, 7, 9, 11] = parameter(
            "entries and row ends a thread, of a tile", 7, only={"split": "merge"}
        )
        lanes: Literal[1, 2, 4, 8, 16, 32] = parameter(
            "threads that share a row, side by side, so that they read neighbours",
            1,
            only={"arch": GPUS, "split": "rows"},
        )
        combine: Literal["shared", "shuffle"] = parameter(
            "how the threads of a row add up what each found: in memory that the block shares, or "
            "by warp shuffles",
            "shared",
            only={"lanes": Not(1), "dtype": ("f32", "i32"), "arch": "cuda"},
        )
        unroll: Literal[1, 2, 3, 4, 6, 8, 9, 16] = parameter(
            "entries of a row a step", 1, only={"split": "rows"}
        )
        blocks: Literal[0, 2, 4224, 8448] = parameter(
            "blocks that take turns, 0 for as many as there is work for",
            0,
            only={"block_dim": Not(0), "arch": GPUS},
            needs={0: {"split": "rows"}},
        )
        block_dim: Literal[0, 32, 64, 128, 256, 512, 1024] = parameter(
            "threads in a block, 0 for Taichi's own choice",
            0,
            needs={0: {"lanes": 1, "split": "rows"}, (32, 512, 1024): {"split": "rows"}},
        )
        serial: bool = parameter(
            "whether one thread does it all", False, only={"block_dim": 0, "arch": "cpu"}
        )

    def default_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        if arch == "cpu":
            # 2 cores of a Zen 5, rows of 3 to 45 and of all lengths: what LLVM makes of the plain
            # loop takes 0.4 to 1.1 of the time of steps of 2, 3 and 4, and 0.6 to 1.3 of that of
            # steps of 8, which are faster on long rows of near columns only.
            return {"serial": are_small(self.arguments(p), sizes)}
        # H200, 1 M rows of 27 f32 of a grid: 77 us on cuda (torch.sparse 79 to 80; one lane 80,
        # eight 124) and 90 on Vulkan (two lanes 108, one 280).
        # H100, cuda: 20 M f32 in rows of a power law 218 us by merging, 12 to 38 ms by rows
        # (torch.sparse 197); 33 M in rows of 1 to 40 324 and 345 (297); 27 M of a grid 143 and 90.
        taken = {"block_dim": 128, "blocks": 4224}
        longest = sizes.get("longest") if sizes else None
        if sizes and longest and 2 * longest * sizes["rows"] > 3 * sizes["nnz"]:
            return {"split": "merge", **taken}
        if arch == "cuda":
            combine = "shuffle" if p.dtype.bits == 32 else "shared"
            return {"lanes": 2, "combine": combine, "unroll": 8, **taken}
        return {"lanes": 4, "unroll": 4, **taken}

    def traits(self, p: Any, arch: str, sizes: Mapping[str, int], read: Any) -> Mapping[str, int]:
        if arch == "cpu" or p.format == "ell":
            return {}
        return {"longest": int(np.diff(read("indptr")).max())}

    def schedule_space(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, tuple[Any, ...]]:
        if arch == "cpu":
            return {
                "unroll": (1, 2, 3, 4, 6, 8, 9, 16),
                "block_dim": (0, 64, 256, 1024),
                "serial": (False, True),
            }
        return {
            "split": ("rows", "merge") if p.format == "csr" else ("rows",),
            "items": (7, 9, 11) if p.format == "csr" else (7,),
            "lanes": (1, 2, 4, 8),
            "combine": ("shared", "shuffle"),
            "unroll": (1, 2, 4, 8),
            "blocks": (0, 4224, 8448),
            "block_dim": (64, 128, 256),
        }

    def check(self, p: Any, s: Any, arch: str) -> None:
        if s.split == "merge" and shared_bytes(p, s) > MOST_SHARED:
            taken = f"for split='merge', block_dim={s.block_dim} and {p.dtype}"
            raise Invalid("items", f"takes less than {s.items} {taken}: a block shares 32 KiB")

    def workspace(self, p: Any, s: Any) -> tuple[Array, ...]:
        if s.split == "rows":
            return ()
        return (
            Array("first_row", DType.i32, (s.blocks,), role="work"),
            # What each part leaves of the row that it does not end, and of the one it ends first.
            Array("carry", p.dtype, (s.blocks,), role="work"),
            Array("head", p.dtype, (s.blocks,), role="work"),
        )

    def context(self, p: Any, s: Any) -> Mapping[str, Any]:
        # Halvings of the threads of a row until one is left.
        return {
            "steps": s.lanes.bit_length() - 1,
            "log2_block": s.block_dim.bit_length() - 1,
            "short": SHORT,
        }

    def arguments(self, p: Any) -> tuple[Array | Scalar, ...]:
        matrix: tuple[Array, ...]
        if p.format == "csr":
            matrix = (
                Array("data", p.dtype, ("nnz",)),
                Array("indices", p.index_dtype, ("nnz",)),
                Array("indptr", p.index_dtype, ("rows + 1",)),
            )
        else:
            matrix = (
                Array("data", p.dtype, ("rows", "width")),
                Array("indices", p.index_dtype, ("rows", "width")),
            )
        return (
            *matrix,
            Array("x", p.dtype, ("cols",)),
            Array("y", p.dtype, ("rows",), role="inout"),
            Scalar("alpha", p.dtype),
            Scalar("beta", p.dtype),
        )

    @staticmethod
    def reference(p: Any, *arguments: Any) -> np.ndarray:
        *matrix, x, y, alpha, beta = arguments
        alpha, beta = (p.dtype.numpy.type(s).astype(p.dtype.wide) for s in (alpha, beta))
        value = alpha * product(p, matrix, x)
        return value if beta == 0 else value + beta * y.astype(p.dtype.wide)

    @staticmethod
    def inputs(p: Any, sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
        # Some rows are empty, and some hold a column twice.
        rows, cols = sizes["rows"], sizes["cols"]
        index = p.index_dtype.numpy
        if p.format == "csr":
            # Now and then one row holds nearly all.
            most = sizes["nnz"] + 1 if rng.random() < 0.75 else min(sizes["nnz"], 3)
            cuts = np.sort(rng.integers(0, most, rows - 1))
            found = {
                "indices": rng.integers(0, cols, sizes["nnz"]).astype(index),
                "indptr": np.concatenate([[0], cuts, [sizes["nnz"]]]).astype(index),
            }
        else:
            columns = rng.integers(0, cols, (rows, sizes["width"]))
            padding = rng.random(columns.shape) < rng.choice([0, 0.3, 1], (rows, 1))
            found = {"indices": np.where(padding, -1 - columns, columns).astype(index)}
        if rng.random() < 0.5:  # Where beta is 0, what y holds must not matter.
            nothing = np.nan if p.dtype.is_float else p.dtype.highest
            found |= {"beta": 0, "y": np.full(rows, nothing, p.dtype.numpy)}
        return found

    def workload(
        self, p: Any, sizes: Mapping[str, int], rng: np.random.Generator
    ) -> dict[str, dict[str, Any]]:
        # As many entries in each row, near the diagonal, as of a grid; and rows of all lengths
        # with columns from anywhere, as of a graph.
        rows, cols, index = sizes["rows"], sizes["cols"], p.index_dtype.numpy
        plain = {"alpha": 1, "beta": 0}
        if p.format == "ell":
            even = _near_diagonal(np.full(rows, sizes["width"]), cols).reshape(rows, -1)
            columns = rng.integers(0, cols, even.shape)
            lengths = np.minimum(_spread(rows, even.size // 2, rng), sizes["width"])
            is_padding = np.arange(sizes["width"]) >= lengths[:, None]
            spread = np.where(is_padding, -1 - columns, columns)
            kinds = {"even": {"indices": even}, "spread": {"indices": spread}}
        else:
            kinds = {}
            for kind in ("even", "spread"):
                count = sizes["nnz"]
                if kind == "even":
                    lengths = np.diff(np.linspace(0, count, rows + 1).astype(np.int64))
                    columns = _near_diagonal(lengths, cols)
                else:
                    lengths = _spread(rows, count, rng)
                    columns = rng.integers(0, cols, count)
                indptr = np.concatenate([[0], np.cumsum(lengths)])
                kinds[kind] = {"indices": columns, "indptr": indptr}
        return {
            kind: {name: value.astype(index) for name, value in given.items()} | plain
            for kind, given in kinds.items()
        }

    @staticmethod
    def tolerance(p: Any, inputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Any:
        # A sum of m products is off by at most m eps sum |a x| (Higham 2002, section 3.1);
        # alpha, beta and the last sum add a rounding each.
        if not p.dtype.is_float:
            return {"y": 0}
        arrays = dict(inputs)
        alpha, beta = abs(float(arrays.pop("alpha"))), abs(float(arrays.pop("beta")))
        data, *structure, x, y = arrays.values()
        terms = product(p, [np.ones_like(data), *structure], np.ones_like(x))
        bound = (terms + 3) * alpha * product(p, [np.abs(data), *structure], np.abs(x))
        if beta != 0:
            bound = bound + 3 * beta * np.abs(y)
        return {"y": float(np.finfo(p.dtype.numpy).eps) * bound}

    def steps(self, p: Any, s: Any, sizes: Mapping[str, int], read: Any) -> int:
        if s.split == "merge":
            return merge_steps(s, sizes)
        longest = sizes["width"] if p.format == "ell" else int(np.diff(read("indptr")).max())
        if s.lanes == 1:
            row = stepped(longest, s.unroll)
        else:
            row = looped((longest - 1) // (s.lanes * s.unroll) + 1)
        if not s.block_dim or (s.lanes == 1 and not s.blocks):
            return parallel(sizes["rows"], row)
        blocks = (sizes["rows"] - 1) // (s.block_dim // s.lanes) + 1
        if s.blocks:
            return looped((blocks - 1) // s.blocks + 1, row)
        return parallel(blocks * s.block_dim, row)

    def flops(self, p: Any, sizes: Mapping[str, int]) -> int:
        entries = sizes["nnz"] if p.format == "csr" else sizes["rows"] * sizes["width"]
        return 2 * entries + 3 * sizes["rows"]

    def sizes(self, p: Any) -> Mapping[str, tuple[int, ...]]:
        vectors = {"rows": (1, 2, 7, 31, 64), "cols": (1, 3, 17, 40)}
        if p.format == "csr":
            return {"nnz": (1, 2, 13, 67, 256, 1009), **vectors}
        return {**vectors, "width": (1, 2, 5, 8, 19)}


def shared_bytes(p: Any, s: Any) -> int:
    """Return what a block of threads shares where they merge entries and row ends."""
    tile = s.block_dim * s.items
    return (2 * tile + s.block_dim + 1) * p.dtype.bits // 8 + (tile + s.block_dim + 2) * 4


def merge_steps(s: Any, sizes: Mapping[str, int]) -> int:
    """Return how many steps the loops of a thread take where entries and row ends are merged."""
    tile, count = s.block_dim * s.items, sizes["nnz"] + sizes["rows"]
    tiles = (count - 1) // (s.blocks * tile) + 1
    search = looped(tile.bit_length() + 1)
    rows = looped(s.items + 1, max(s.block_dim, SHORT) + 1)
    one_tile = 2 * looped(s.items + 1) + search + looped(s.items) + rows
    return max(
        parallel(sizes["rows"], looped(s.blocks)),
        looped(tiles, one_tile),
        looped(s.blocks // 32 + 1) + looped(6),
    )


def _near_diagonal(lengths: np.ndarray, cols: int) -> np.ndarray:
    """Return for each entry of rows of these lengths a column near the diagonal."""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    found: np.ndarray = (rows * cols // max(len(lengths), 1) + place) % cols
    return found


def _spread(rows: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return lengths of rows that add up to ``count``, most of them short and some long."""
    weights = rng.lognormal(0, 1, rows)
    cuts = np.rint(np.cumsum(weights) / weights.sum() * count).astype(np.int64)
    return np.diff(cuts, prepend=0)


def product(p: Any, matrix: Any, x: Any) -> Any:
    """Return A @ x in wide precision."""
    data, indices, *bounds = matrix
    if bounds:
        row = np.repeat(np.arange(len(bounds[0]) - 1), np.diff(bounds[0]))
        count = len(bounds[0]) - 1
    else:
        row, slot = np.nonzero(indices >= 0)
        data, indices, count = data[row, slot], indices[row, slot], len(indices)
    total = np.zeros(count, p.dtype.wide)
    np.add.at(total, row, data.astype(p.dtype.wide) * x[indices].astype(p.dtype.wide))
    return total
